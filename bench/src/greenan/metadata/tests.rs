//! The workload makes what the paper says, at every setting.

use super::*;
use keepfs_vfs::{Ino, Vfs};
use std::collections::BTreeSet;

#[test]
fn the_tree_is_that_of_the_paper() {
    let (level, _) = settings()[0];
    let volume = level.volume().expect("a volume");
    let calls = Library(&volume);
    let (tree, operations) = run(&calls, 3, 7).expect("it runs");
    assert_eq!(operations, 3 + 3 * 7 * 3 + 3);
    assert_eq!(look(&calls, &tree).expect("all are there"), 21);
    for dir in 0..3 {
        let dir = volume
            .lookup(Ino::ROOT, format!("7-{dir:03}").as_bytes())
            .expect("there")
            .attr;
        assert_eq!(dir.mode & 0o777, 0o700);
        for file in 0..7 {
            let one = volume.lookup(dir.ino, name(file).as_bytes()).expect("there").attr;
            let other = volume
                .lookup(dir.ino, format!("link-{file:05}").as_bytes())
                .expect("there")
                .attr;
            assert_eq!((one.ino, one.nlink, one.size), (other.ino, 2, 0));
        }
    }
}

#[test]
fn every_size_is_told_at_every_setting() {
    let wishes = Wishes {
        dirs: 1,
        dirs_slow: 1,
        rounds: 1,
        files_max: 180,
    };
    let mut told = BTreeSet::new();
    compare(&wishes, |one| {
        assert!(one.value > 0.0);
        told.insert((one.workload, one.peer));
    })
    .expect("it runs");
    assert_eq!(told.len(), 2 * settings().len());
    assert!(settings().len() >= 8);
}
