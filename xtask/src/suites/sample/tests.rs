//! The same seed makes the same tree, another seed another one.

use super::{Size, make};
use crate::suites::compare::{difference, manifest};

#[test]
fn a_tree_is_its_seed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tree = |name: &str, seed| {
        let root = dir.path().join(name);
        make(
            &root,
            Size {
                files: 130,
                bytes: 100_000,
            },
            seed,
        )
        .expect("a tree");
        manifest(&root).expect("its manifest")
    };
    let (a, b, c) = (tree("a", 1), tree("b", 1), tree("c", 2));
    assert_eq!(difference(&a, &b), None);
    assert!(difference(&a, &c).is_some());
    assert_eq!(a.len(), 130 + 3 + 3 + 4 + 1, "files, soft and hard links, directories");
}
