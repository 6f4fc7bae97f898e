//! Unsafe code inside and outside the fences.

use super::{Finding, Place, Tree, UNSAFE, check, check_unused};

const BLOCK: &str = "//! Head.\nfn f() {\n    unsafe { g() }\n}\n";

#[test]
fn a_fenced_file_may_be_unsafe() {
    let tree = Tree::default()
        .with("crates/media/src/sys.rs", BLOCK)
        .with("lab/src/inject/sys.rs", BLOCK);
    assert_eq!(check(&tree), []);
}

#[test]
fn any_other_file_may_not() {
    let tree = Tree::default().with("crates/fs/src/inode.rs", BLOCK);
    assert_eq!(check(&tree), [Finding::Unsafe(Place::new("crates/fs/src/inode.rs", 3))]);
}

#[test]
fn the_lint_is_not_switched_off_elsewhere() {
    let tree = Tree::default().with("crates/fs/src/lib.rs", "//! Head.\n#![allow(unsafe_code)]\n");
    assert_eq!(check(&tree), [Finding::Unsafe(Place::new("crates/fs/src/lib.rs", 2))]);
}

#[test]
fn no_slice_is_made_from_a_pointer_elsewhere() {
    let tree = Tree::default().with("crates/fs/src/lib.rs", "use core::slice::from_raw_parts;\n");
    assert_eq!(check(&tree), [Finding::Unsafe(Place::new("crates/fs/src/lib.rs", 1))]);
}

#[test]
fn words_and_comments_are_not_code() {
    let tree = Tree::default().with(
        "crates/fs/src/lib.rs",
        "// unsafe\nconst S: &str = \"unsafe\";\nfn unsafe_to() {}\n",
    );
    assert_eq!(check(&tree), []);
}

#[test]
fn a_fence_without_unsafe_code_is_found() {
    let all = UNSAFE.iter().fold(Tree::default(), |tree, path| tree.with(path, BLOCK));
    assert_eq!(check_unused(&all), []);
    let safe = all.with(UNSAFE[0], "//! Head.\nfn f() {}\n");
    assert_eq!(check_unused(&safe), [Finding::FenceUnused(UNSAFE[0].to_owned())]);
}
