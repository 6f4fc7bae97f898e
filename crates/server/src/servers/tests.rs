//! Servers are told by their words, and what they do by what the kernel says.

use super::{Server, is_at, serves};
use crate::registry::Record;
use std::path::Path;

#[test]
fn a_server_is_known_by_its_words() {
    let record = Record {
        pid: 1,
        kept: true,
        pool: "/a/pool".into(),
        identities: Vec::new(),
        births: Default::default(),
        dir: "/mnt/a b".into(),
        device: "0:0".into(),
        since_ns: 0,
        options: Vec::new(),
    };
    assert!(serves(b"keepfs\0serve\0--kept\0/a/pool\0/mnt/a b\0-o\0ro\0", &record));
    assert!(serves(b"keepfs\0serve\0--kept\0/a/pool\0/mnt/a b\0", &record));
    assert!(!serves(b"keepfs\0serve\0--kept\0/a/pool\0/mnt/a\0", &record));
    assert!(!serves(b"keepfs\0keep\0/a/pool\0/mnt/a b\0", &record));
    assert!(!serves(b"", &record));
}

#[test]
fn a_server_is_known_by_its_mount_point_alone() {
    let dir = Path::new("/mnt/a b");
    assert!(is_at(b"exe\0keep\0/a/pool\0/mnt/a b\0-o\0ro\0", dir));
    assert!(is_at(b"keepfs\0serve\0--kept\0/a/pool\0/mnt/a b\0", dir));
    assert!(!is_at(b"keepfs\0serve\0--kept\0/a/pool\0/mnt/a\0", dir));
    assert!(!is_at(b"keepfs\0status\0/mnt/a b\0", dir));
    assert!(!is_at(b"", dir));
}

#[test]
fn a_stopped_server_is_not_waited_for() {
    let server = |state, age_s| Server {
        pid: 7,
        state,
        killed: false,
        age_s,
    };
    assert!(server('S', 1).is_young());
    assert!(!server('S', 100).is_young());
    assert!(!server('T', 1).is_young());
    assert_eq!(
        server('T', 1).why(),
        "process 7 is stopped (a signal or a debugger), and `kill -CONT 7` lets it go on"
    );
}
