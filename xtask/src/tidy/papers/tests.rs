//! A sound set of papers, one torn at a time.

use super::{CHECKED, Finding, Tree, check};

/// A workspace whose releases check overflow.
fn workspace() -> String {
    let checked = CHECKED
        .iter()
        .map(|package| format!("{package}.overflow-checks = true\n"));
    format!(
        "[workspace]\n[profile.release.package]\n{}",
        checked.collect::<String>()
    )
}

fn sound() -> Tree {
    let manifest = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n\n[dependencies]\n";
    Tree::default()
        .with("CHANGELOG.md", "# Changes\n\n## Unreleased\n")
        .with("crates/a/Cargo.toml", manifest)
        .with("Cargo.toml", &workspace())
}

#[test]
fn sound_papers_have_no_findings() {
    assert_eq!(check(&sound()), []);
}

#[test]
fn a_closed_change_log_is_found() {
    assert_eq!(
        check(&sound().with("CHANGELOG.md", "# Changes\n\n## 0.1.0\n")),
        [Finding::NoUnreleased]
    );
    assert_eq!(check(&sound().with("CHANGELOG.md", "")), [Finding::NoUnreleased]);
}

#[test]
fn a_package_with_its_own_lints_is_found() {
    let own = "[package]\nname = \"b\"\n[lints]\nrust.unsafe_code = \"allow\"\n[x]\nworkspace = true\n";
    let tree = sound().with("crates/b/Cargo.toml", own);
    assert_eq!(check(&tree), [Finding::LintsNotInherited("crates/b/Cargo.toml".into())]);
}

#[test]
fn releases_that_let_overflow_pass_are_found() {
    let text = workspace().replace("keepfs-fs.overflow-checks = true", "keepfs-fs.overflow-checks = false");
    let text = format!("{text}[profile.dev.package]\nkeepfs-fs.overflow-checks = true\n");
    assert_eq!(
        check(&sound().with("Cargo.toml", &text)),
        [Finding::OverflowUnchecked("keepfs-fs")]
    );
}
