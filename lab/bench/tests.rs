//! Each workload does what it counts, on an ordinary directory.

use std::time::Duration;

use crate::random::Random;
use crate::{Done, dispatch};

#[test]
fn workloads_count_what_they_do() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = |workload| dispatch(workload, dir.path(), Duration::from_millis(50)).expect("a workload");
    let created = run("create");
    let files = std::fs::read_dir(dir.path().join("create"))
        .expect("a directory")
        .count();
    assert_eq!(files as u64, created.operations);
    assert_eq!(created.fsyncs, created.operations);
    run("varmail-prepare");
    let mail = run("varmail");
    assert_eq!(mail.operations, mail.fsyncs / 2 * 13);
    let names = std::fs::read_dir(dir.path().join("mail")).expect("a directory").count();
    assert_eq!(names, 800, "every thread deletes one and creates one");
    assert!(dispatch("nothing", dir.path(), Duration::ZERO).is_err());
}

#[test]
fn sizes_have_their_mean() {
    let mut random = Random(1);
    let sum: f64 = (0..20_000).map(|_| random.gamma(16384.0)).sum();
    assert!((sum / 20_000.0 / 16384.0 - 1.0).abs() < 0.03);
}

#[test]
fn the_line_is_json() {
    let done = Done {
        operations: 1,
        fsyncs: 2,
        bytes: 3,
        seconds: 0.5,
    };
    assert_eq!(done.json(), r#"{"operations":1,"fsyncs":2,"bytes":3,"seconds":0.5}"#);
}
