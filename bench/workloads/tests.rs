//! Each workload does what it counts, on an ordinary directory.

use crate::figures::Done;
use crate::fileset::{Fileset, Shape, Size};
use crate::personality::{PERSONALITIES, Step};
use crate::random::Random;
use crate::{dispatch, everyday, run};
use std::path::Path;
use std::time::Duration;

fn short(dir: &Path, workload: &str) -> Done {
    dispatch(workload, dir, Duration::from_millis(50), Some(2)).expect(workload)
}

fn count(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a directory").count()
}

#[test]
fn workloads_count_what_they_do() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path();
    short(dir, "single-prepare");
    let created = short(dir, "create");
    let files: usize = (0..100).map(|n| count(&dir.join(format!("create/{n:02}")))).sum();
    assert_eq!(files as u64, created.operations);
    assert_eq!(created.fsyncs, created.operations);
    let bare = short(dir, "bare-create");
    let renamed = short(dir, "rename");
    assert!(renamed.operations <= bare.operations);
    let all = dispatch("unlink", dir, Duration::from_secs(600), None).expect("unlink");
    assert_eq!(all.operations, bare.operations);
    short(dir, "delete-prepare");
    assert_eq!(short(dir, "delete").operations, 100);
    let appended = short(dir, "append10");
    assert_eq!(appended.fsyncs, appended.operations / 10);
    assert_eq!(
        std::fs::metadata(dir.join("append10")).expect("the file").len(),
        4096 * appended.operations
    );
    assert!(dispatch("nothing", dir, Duration::ZERO, None).is_err());
}

#[test]
fn programs_of_every_day_leave_what_they_say() {
    let beside = tempfile::tempdir().expect("a temporary directory");
    let archive = everyday::prepare_in(beside.path(), Some(1)).expect("an archive");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let job = |name: &str| {
        let done = everyday::program(name, dir.path(), &archive).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(done.whole && done.operations == 1 && done.seconds > 0.0, "{name}");
    };
    for name in ["untar", "cp", "ls", "find", "grep"] {
        job(name);
    }
    assert_eq!(count(&dir.path().join("tree")), count(&dir.path().join("copy")));
    for (program, name) in [("git", "git-commit"), ("git", "git-status"), ("rsync", "rsync")] {
        if xtask::install::present(program) {
            job(name);
        }
    }
    job("rm");
    assert!(!dir.path().join("copy").exists());
    job("ls-cold");
    assert!(everyday::program("nothing", dir.path(), &archive).is_err());
}

#[test]
fn every_personality_runs_and_keeps_its_books() {
    for personality in &PERSONALITIES {
        let dir = tempfile::tempdir().expect("a temporary directory");
        personality.prepare(dir.path(), Some(5)).expect(personality.name);
        let files = personality.fileset(dir.path(), Some(5));
        let done = personality
            .run_on(&files, &dir.path().join("log"), Duration::from_millis(200))
            .expect(personality.name);
        assert!(done.operations > 0 && done.bytes > 0, "{}", personality.name);
        let syncs = personality.steps.contains(&Step::Fsync);
        assert_eq!(done.fsyncs > 0, syncs, "{}", personality.name);
        let mut after = 0;
        let mut pending = vec![dir.path().join(personality.name)];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
                match entry.path().is_dir() {
                    true => pending.push(entry.path()),
                    false => after += 1,
                }
            }
        }
        assert_eq!(after, files.files(), "{}", personality.name);
    }
}

#[test]
fn the_lists_are_as_long_as_filebench_has_them() {
    let lengths: Vec<usize> = PERSONALITIES.iter().map(|p| p.steps.len()).collect();
    assert_eq!(lengths, [13, 11, 31, 19]);
}

#[test]
fn picks_go_round_and_pass_over_what_is_picked() {
    let shape = Shape {
        entries: 4,
        width: 10,
        prealloc: 100,
        size: Size::Fixed(1),
    };
    let files = Fileset::new(Path::new("nowhere"), &shape);
    let (first, second) = (files.pick_file(), files.pick_file());
    assert_eq!((first, second), (0, 1));
    files.is_file(second, true);
    assert!(files.is_open(second) && !files.is_open(first));
    assert_eq!([files.pick_file(), files.pick_file()], [2, 3]);
    assert_eq!(files.pick_file(), 1, "round the end, past 0, which is still picked");
    assert_eq!(files.pick_free(), None);
    files.is_free(first);
    assert_eq!(files.pick_free(), Some(0));
    files.closed(second);
    assert!(!files.is_open(second));
}

#[test]
fn a_narrow_set_is_a_tree() {
    let shape = PERSONALITIES[1].shape;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = Fileset::new(dir.path(), &shape);
    let depth = files.path(0).components().count() - dir.path().components().count();
    assert_eq!(depth, 3, "ln 10000 / ln 20 = 3.07");
    assert_eq!(files.path(0).parent(), files.path(19).parent());
    assert_ne!(files.path(0).parent(), files.path(20).parent());
    let share = files.files() as f64 / shape.entries as f64;
    assert!((share - 0.8).abs() < 0.02);
}

#[test]
fn sizes_have_their_mean() {
    let mut random = Random(1);
    let sum: f64 = (0..20_000).map(|_| random.gamma(16384.0)).sum();
    assert!((sum / 20_000.0 / 16384.0 - 1.0).abs() < 0.03);
}

#[test]
fn the_line_has_operations_and_latencies() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    short(dir.path(), "single-prepare");
    let done = run("create", dir.path(), Duration::from_millis(50), None).expect("create");
    let line = done.json();
    for name in [
        "operations",
        "fsyncs",
        "bytes",
        "seconds",
        "sync_seconds",
        "p50_us",
        "fsync_p99_us",
    ] {
        assert!(line.contains(&format!("\"{name}\":")), "{line}");
    }
    assert!(!line.contains("\"p50_us\":0,"), "{line}");
}
