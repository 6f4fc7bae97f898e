//! Which packages files belong to.

use super::{name, packages};

#[test]
fn a_file_belongs_to_the_nearest_package() {
    let files = [
        "crates/store/src/redo.rs",
        "crates/store/tests/any/new/file.rs",
        "lab/model/src/lib.rs",
        "lab/src/lib.rs",
        "docs/SPEC.md",
        "Cargo.toml",
    ];
    let files = files.map(str::to_owned);
    let found = packages(&files);
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(name, folder)| (name.as_str(), folder.to_str().unwrap()))
        .collect();
    let expected = [
        ("keepfs-lab", "lab"),
        ("keepfs-model", "lab/model"),
        ("keepfs-store", "crates/store"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_workspace_is_no_package() {
    assert_eq!(name("[workspace]\nmembers = []\n"), None);
    assert_eq!(
        name("[lints]\n[package]\nversion = \"1\"\nname = \"one\"\n"),
        Some("one".into())
    );
}
