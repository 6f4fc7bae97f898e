//! Events outlive their server, and their file does not grow without end.

use super::{LINES_MAX, read};
use crate::logging::{Event, RING, Ring};
use std::fs;
use std::io::Write;

fn event(n: u64) -> Event {
    Event {
        time_s: n,
        level: "warn".into(),
        part: "keepfs".into(),
        text: format!("event {n}"),
    }
}

fn opened(path: &std::path::Path) -> fs::File {
    let mut options = fs::File::options();
    options.read(true).append(true).create(true).open(path).expect("a file")
}

fn times(path: &std::path::Path) -> Vec<u64> {
    read(path).iter().map(|event| event.time_s).collect()
}

#[test]
fn what_came_before_the_file_and_before_the_server_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("events");
    let first = Ring::default();
    first.push(event(1), &[]);
    first.keep_in(opened(&path)).expect("a file");
    first.push(event(2), &[]);
    assert_eq!(times(&path), [1, 2]);
    drop(first);
    // It died in the middle of a line.
    let mut file = fs::File::options().append(true).open(&path).expect("the file");
    file.write_all(b"{\"time_s\":3,").expect("written");
    let second = Ring::default();
    second.keep_in(opened(&path)).expect("a file");
    second.push(event(4), &[]);
    assert_eq!(times(&path), [1, 2, 4]);
    assert_eq!(second.count(), 1, "only its own count");
}

#[test]
fn the_file_stays_small() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("events");
    let ring = Ring::default();
    ring.keep_in(opened(&path)).expect("a file");
    let all = 3 * LINES_MAX as u64;
    for n in 0..all {
        ring.push(event(n), &[]);
        assert!(n % 100 != 0 || read(&path).len() <= LINES_MAX);
    }
    let last: Vec<u64> = times(&path);
    assert!(last.len() >= RING);
    assert_eq!(
        last[last.len() - RING..],
        ((all - RING as u64)..all).collect::<Vec<_>>()
    );
}
