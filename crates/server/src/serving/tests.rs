//! Threads of one name are summed; what is no thread is left out.

use super::*;

fn put(dir: &Path, number: &str, comm: &str, schedstat: &str) {
    let dir = dir.join(number);
    fs::create_dir(&dir).expect("a directory");
    fs::write(dir.join("comm"), comm).expect("a name");
    fs::write(dir.join("schedstat"), schedstat).expect("numbers");
}

#[test]
fn threads_of_one_name_are_summed() {
    let dir = tempfile::tempdir().expect("a directory");
    put(dir.path(), "1", "fuse-work\n", "100 20 3\n");
    put(dir.path(), "2", "fuse-work\n", "11 2 1\n");
    put(dir.path(), "3", "fuse-read-0\n", "7 0 1\n");
    put(dir.path(), "4", "ended\n", "7\n");
    let reader = ThreadFigures {
        name: "fuse-read-0".into(),
        threads: 1,
        ran_ns: 7,
        runnable_ns: 0,
        runs: 1,
    };
    let worker = ThreadFigures {
        name: "fuse-work".into(),
        threads: 2,
        ran_ns: 111,
        runnable_ns: 22,
        runs: 4,
    };
    assert_eq!(threads(dir.path()), [reader, worker]);
}

#[test]
fn a_mount_that_was_asked_for_nothing_says_so() {
    assert_eq!(serving(&Tally::default()).operations, []);
}
