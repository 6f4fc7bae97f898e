//! A sound set of papers, one torn at a time.

use super::{Finding, Tree, check};

fn sound() -> Tree {
    let manifest = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n\n[dependencies]\n";
    Tree::default()
        .with("CHANGELOG.md", "# Changes\n\n## Unreleased\n")
        .with("crates/a/Cargo.toml", manifest)
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
fn the_workspace_itself_is_no_package() {
    assert_eq!(check(&sound().with("Cargo.toml", "[workspace]\n")), []);
}
