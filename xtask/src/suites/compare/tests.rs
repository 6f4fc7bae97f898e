//! Two equal trees, one changed in one way at a time.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{difference, manifest, same};

fn tree(root: &Path) {
    fs::create_dir_all(root.join("dir")).expect("directory");
    fs::write(root.join("dir/file"), "content").expect("file");
    symlink("file", root.join("dir/link")).expect("link");
}

/// Whether a change to one of two equal trees is seen.
fn sees(change: impl Fn(&Path)) -> bool {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    tree(&a);
    tree(&b);
    assert_eq!(same(&a, &b), Ok(4));
    change(&b);
    same(&a, &b).is_err()
}

#[test]
fn every_difference_is_seen() {
    assert!(sees(|root| fs::write(root.join("dir/file"), "Content").expect("write")));
    assert!(sees(|root| fs::write(root.join("dir/more"), "").expect("write")));
    assert!(sees(|root| fs::remove_file(root.join("dir/link")).expect("remove")));
    assert!(sees(
        |root| fs::hard_link(root.join("dir/file"), root.join("hard")).expect("link")
    ));
    let private = fs::Permissions::from_mode(0o600);
    assert!(sees(
        |root| fs::set_permissions(root.join("dir/file"), private.clone()).expect("chmod")
    ));
    assert!(sees(|root| {
        fs::remove_file(root.join("dir/link")).expect("remove");
        symlink("elsewhere", root.join("dir/link")).expect("link");
    }));
}

#[test]
fn the_first_difference_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    tree(dir.path());
    let before = manifest(dir.path()).expect("manifest");
    fs::remove_file(dir.path().join("dir/file")).expect("remove");
    let after = manifest(dir.path()).expect("manifest");
    let words = difference(&before, &after).expect("a difference");
    assert!(
        words.starts_with("/dir/file: Some") && words.contains("None there (1 entries differ)"),
        "{words}"
    );
    assert_eq!(difference(&before, &before), None);
}
