//! Outcomes, the hang guard, the choice of stages.

use super::{
    AtomicUsize, Choice, Command, CommandExt, Counts, Duration, Mutex, Ordering, Outcome, STAGES, Skips, Stage, end,
    groups, in_turn, wait,
};
use std::sync::Barrier;

fn shell(script: &str, limit: Duration) -> Outcome {
    let child = Command::new("sh").args(["-c", script]).process_group(0).spawn();
    wait(child.expect("sh starts"), limit)
}

#[test]
fn exit_codes_become_outcomes() {
    let minute = Duration::from_secs(60);
    assert_eq!(shell("exit 0", minute), Outcome::Passed);
    assert_eq!(shell("exit 77", minute), Outcome::Skipped);
    assert_eq!(shell("exit 3", minute), Outcome::Failed("exit code 3".into()));
    assert_eq!(shell("kill -9 $$", minute), Outcome::Failed("signal 9".into()));
}

#[test]
fn a_stage_that_hangs_is_killed_with_its_children() {
    let outcome = shell("sleep 600 & wait", Duration::ZERO);
    assert_eq!(
        outcome,
        Outcome::Failed("hung: over its limit of 0 s, was killed".into())
    );
}

#[test]
fn arguments_choose_stages() {
    let chosen = |args: &[&str]| {
        let choice = Choice::parse(args).expect("good arguments");
        STAGES.iter().filter(|stage| choice.takes(stage)).count()
    };
    assert_eq!(chosen(&["--only", "tidy"]), 1);
    assert_eq!(chosen(&["--only", "tidy", "--only", "fmt"]), 2);
    assert_eq!(chosen(&["--only", "no such stage"]), 0);
    assert_eq!(chosen(&["--long"]), STAGES.len());
    assert_eq!(chosen(&[]), STAGES.iter().filter(|stage| !stage.long).count());
    assert!(Choice::parse(&["--only"]).is_err());
    assert!(Choice::parse(&["--slow"]).is_err());
}

#[test]
fn the_stage_that_takes_what_is_left_is_the_last() {
    let last = STAGES.iter().rfind(|stage| !stage.long).expect("stages");
    assert_eq!(last.name, "crash");
}

#[test]
fn names_of_stages_are_unique() {
    let mut names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), STAGES.len());
}

#[test]
fn a_failed_stage_is_told_by_its_causes_and_its_end() {
    assert_eq!(end("a\nb\n"), "    | a\n    | b");
    let quiet = "test it ... ok\n".repeat(100);
    let log = format!("{quiet}thread 'x' panicked at y:\nleft: 1\n{quiet}test x ... FAILED\n{quiet}the end\n");
    let told = end(&log);
    for line in ["thread 'x' panicked at y:", "left: 1", "test x ... FAILED", "the end"] {
        assert!(
            told.lines().any(|told| told == format!("    | {line}")),
            "{line}\n{told}"
        );
    }
    assert!(told.lines().count() < 50, "{told}");
    let many = end(&"thread 'x' panicked at y:\n".repeat(1000));
    assert_eq!(many.lines().count(), super::CAUSES + super::TAIL);
}

#[test]
fn a_stage_runs_alone_or_beside_its_neighbours() {
    let stages: Vec<&Stage> = STAGES.iter().collect();
    let groups: Vec<_> = groups(&stages).collect();
    assert_eq!(groups.iter().map(|group| group.len()).sum::<usize>(), STAGES.len());
    for group in &groups {
        assert!(group.len() == 1 || group.iter().all(|stage| stage.beside));
    }
    assert!(groups.iter().any(|group| group.len() > 2));
}

/// As many as there are processors at a time, each once, begun in their order; the first that has two beside it waits for them.
#[test]
fn stages_beside_each_other_are_so_many_at_a_time() {
    let stages: Vec<&Stage> = STAGES.iter().take(6).collect();
    let (running, most, begun) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let both = Barrier::new(2);
    let done = in_turn(&stages, 2, |stage| {
        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        begun.lock().expect("begun").push(stage.name);
        both.wait();
        running.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    assert_eq!((done, most.into_inner()), (Ok(()), 2));
    let mut begun = begun.into_inner().expect("begun");
    begun.sort_unstable();
    let mut names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    names.sort_unstable();
    assert_eq!(begun, names);
    let refused = in_turn(&stages, 2, |stage| match stage.name {
        "tidy" => Err("it cannot run".into()),
        _ => Ok(()),
    });
    assert_eq!(refused, Err("it cannot run".into()));
}

#[test]
fn the_table_of_times_begins_with_the_longest() {
    let counts = Counts {
        times: vec![
            ("fmt", 0.4),
            ("unit", 300.25),
            ("crash", 600.0),
            ("one", 1.0),
            ("two", 2.0),
            ("three", 3.0),
        ],
        ..Counts::default()
    };
    let table = counts.table();
    let places = ["crash", "unit", "three", "two", "one"].map(|name| table.find(name).expect(name));
    assert!(places.is_sorted(), "{table}");
    assert!(!table.contains("fmt") && table.trim().lines().count() == 2, "{table}");
}

/// A stage that the machine can run and that was skipped is a failure; one that needs more is told as skipped.
#[test]
fn a_skip_fails_where_the_stage_could_run() {
    let counted = |able: bool, name: &str| {
        let stage = STAGES.iter().find(|stage| stage.name == name).expect("a stage");
        let mut counts = Counts {
            able,
            ..Counts::default()
        };
        counts.tell(stage, &Outcome::Skipped, 0.0);
        (counts.passed, counts.skipped.len(), counts.failed.len())
    };
    assert_eq!(counted(true, "keeper"), (0, 0, 1));
    assert_eq!(counted(false, "keeper"), (0, 1, 0));
    assert_eq!(counted(true, "fsx_uring"), (0, 1, 0));
}

/// A test that passes without having run is counted, and whether it could have.
#[test]
fn tests_that_were_skipped_are_counted() {
    let skips = |all, able| Skips { all, able };
    assert_eq!(
        Skips::told("test it ... ok\nSummary: 1 failed, 14 skipped, 383 passed\n"),
        skips(0, 0)
    );
    let log = "skipped: needs root and /dev/fuse\ntest a ... skipped: needs root\nok\nskipped: needs Landlock\n";
    assert_eq!(Skips::told(log), skips(3, 2));
    assert_eq!(skips(3, 0).to_string(), "; 3 tests skipped, its log says why");
    assert_eq!(skips(0, 0).to_string(), "");
}

/// A stage whose tests were skipped where they could run is a failure.
#[test]
fn a_skipped_test_fails_where_it_could_run() {
    let counted = |able: bool, needs: &str| {
        let stage = &crate::stages::Stage {
            name: "skipping",
            ..crate::stages::STAGES[0]
        };
        let log = crate::paths::log(stage.name);
        std::fs::create_dir_all(log.parent().expect("a directory")).expect("made");
        std::fs::write(&log, format!("skipped: needs {needs}\n")).expect("written");
        let mut counts = Counts {
            able,
            ..Counts::default()
        };
        counts.tell(stage, &Outcome::Passed, 0.0);
        (counts.passed, counts.failed.len())
    };
    assert_eq!(counted(true, "root and /dev/fuse"), (0, 1));
    assert_eq!(counted(false, "root and /dev/fuse"), (1, 0));
    assert_eq!(counted(true, "Landlock"), (1, 0));
}
