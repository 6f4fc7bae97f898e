//! The language says what it means: text, generators, the runner and the shrinker.

use std::collections::BTreeSet;

use super::*;
use crate::model::{Model, Options};
use crate::tree::Times;
use keepfs_vfs::{Errno, Ino};

#[test]
fn every_operation_is_read_as_it_was_printed() {
    let mut generator = Generator::new(1, Profile::everything());
    for &verb in Verb::ALL {
        for _ in 0..200 {
            let op = generator.op(verb);
            assert_eq!(op.verb(), verb);
            assert_eq!(op.to_string().parse::<Op>().as_ref(), Ok(&op), "{op}");
        }
    }
    let ops: Vec<Op> = generator.take(300).collect();
    assert_eq!(parse_all(&format!("# a seed\n\n{}", print_all(&ops))).unwrap(), ops);
}

#[test]
fn what_is_no_operation_is_refused_with_its_line() {
    for (text, words) in [
        ("syncfs\nflush path=a", "line 2: no operation is called \"flush\""),
        ("unlink", "path is missing"),
        ("unlink name=a", "stands where path should"),
        ("unlink path=a path=b", "one word too many"),
        ("stat path=%zz", "is no path"),
        ("release slot=x", "is no slot"),
    ] {
        let error = parse_all(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn a_seed_is_one_sequence_and_sequences_do_something() {
    let ops = |seed| {
        Generator::new(seed, Profile::everything())
            .take(2000)
            .collect::<Vec<_>>()
    };
    assert_eq!(ops(7), ops(7));
    assert_ne!(ops(7), ops(8));
    let used: BTreeSet<Verb> = ops(7).iter().map(Op::verb).collect();
    assert_eq!(used.len(), Verb::ALL.len());
    let mut worked = BTreeSet::new();
    let mut successes = 0;
    for seed in 0..20 {
        let model = Model::default();
        let mut session = Session::new(&model);
        for op in ops(seed).iter().take(150) {
            let outcome = session.run(op);
            if !outcome.is_err() && outcome != Outcome::WrongKind {
                successes += 1;
                worked.insert(op.verb());
            }
        }
    }
    assert!(successes > 20 * 150 / 3, "only {successes} of 3000 operations work");
    assert_eq!(worked, used, "each operation works at least once");
}

#[test]
fn a_run_gives_every_lookup_back() {
    let model = Model::default();
    let mut session = Session::new(&model);
    for op in Generator::new(3, Profile::everything().with(Verb::SetFlags, 0)).take(3000) {
        session.run(&op);
    }
    drop(session);
    let names = std::cell::RefCell::new(BTreeSet::from([Ino::ROOT.0]));
    collect_inodes(&model, Ino::ROOT, &mut names.borrow_mut());
    assert_eq!(
        model.inode_count(),
        names.borrow().len(),
        "no inode without a name is left"
    );
}

fn collect_inodes(model: &Model, dir: Ino, found: &mut BTreeSet<u64>) {
    let mut below = Vec::new();
    let listing = model.readdir(dir, 0, &mut |e| {
        if e.name != b"." && e.name != b".." {
            below.push((e.ino, e.kind));
        }
        true
    });
    assert_eq!(listing, Ok(()));
    for (ino, kind) in below {
        found.insert(ino.0);
        if kind == keepfs_vfs::FileKind::Dir {
            collect_inodes(model, ino, found);
        }
    }
}

#[test]
fn slots_hold_what_has_lost_its_name() {
    let model = Model::default();
    let mut session = Session::new(&model);
    let mut run = |text: &str| session.run(&text.parse().unwrap());
    run("create path=f mode=644 who=0:0:0");
    assert_eq!(run("hold slot=0 path=f"), Outcome::Done);
    run("unlink path=f");
    assert_eq!(run("append path=@0 len=9 seed=1 kill=no"), Outcome::Number(9));
    assert_eq!(run("link from=@0 to=g"), Outcome::Err(Errno::ENOENT));
    run("release slot=0");
    assert_eq!(run("stat path=@0"), Outcome::Err(Errno::EBADF));
    run("tmpfile slot=1 dir=/ mode=600 who=0:0:0");
    assert!(!run("link from=@1 to=h").is_err());
    drop(session);
    assert_eq!(model.inode_count(), 2);
}

#[test]
fn symbolic_links_are_not_followed() {
    let model = Model::default();
    for (text, outcome) in [
        ("mkdir path=d mode=755 who=0:0:0", None),
        ("symlink path=l target=d who=0:0:0", None),
        ("create path=l/f mode=644 who=0:0:0", Some(Outcome::Err(Errno::ELOOP))),
        ("read path=l offset=0 len=1", Some(Outcome::WrongKind)),
        ("create path=l/f/g mode=644 who=0:0:0", Some(Outcome::Err(Errno::ELOOP))),
    ] {
        let got = text.parse::<Op>().unwrap().apply(&model);
        assert!(outcome.is_none_or(|o| o == got), "{text}");
    }
}

#[test]
fn a_failing_run_shrinks_to_what_it_needs() {
    let ops: Vec<Op> = Generator::new(11, Profile::everything()).take(200).collect();
    let needed = [ops[20].clone(), ops[77].clone(), ops[180].clone()];
    let mut calls = 0;
    let shrunk = shrink(&ops, &mut |candidate| {
        calls += 1;
        let mut left = needed.iter().peekable();
        for op in candidate {
            left.next_if(|n| *n == op);
        }
        left.peek().is_none()
    });
    assert_eq!(shrunk, needed);
    assert!(calls < 400, "{calls} calls");
    assert_eq!(shrink(&ops, &mut |_| false), ops);
    assert!(shrink(&ops, &mut |_| true).is_empty());
}

#[test]
fn short_sequences_are_numbered_and_each_step_works_alone() {
    let steps = ace::steps();
    assert_eq!(ace::setup().len(), 10);
    assert!(steps.len() > 60, "{}", steps.len());
    // A few steps need an earlier one (A/bar, A/C); they are there for sequences of two.
    let mut idle = Vec::new();
    for step in &steps {
        let model = Model::with_clock(std::sync::Arc::new(keepfs_vfs::Time::default));
        let mut session = Session::new(&model);
        ace::setup()
            .iter()
            .for_each(|op| assert!(!session.run(op).is_err(), "{op}"));
        if step.ops.iter().any(|op| session.run(op).is_err()) {
            idle.push(step.ops[0].to_string());
        }
        let fsync = Op::Fsync {
            path: step.dir.clone(),
            data_only: false,
        };
        assert_eq!(session.run(&fsync), Outcome::Done, "{fsync}");
    }
    assert_eq!(idle.len(), 4, "{idle:#?}");
    let one = ace::count(&steps, 1);
    assert_eq!(one, 4 * steps.len() as u64);
    assert_eq!(ace::count(&steps, 2), one * one);
    let all: BTreeSet<String> = (0..one).map(|i| print_all(&ace::sequence(&steps, 1, i))).collect();
    assert_eq!(all.len() as u64, one);
    let last = ace::sequence(&steps, 2, one * one - 1);
    assert_eq!(last.len(), 2 * steps[steps.len() - 1].ops.len());
}

/// A clock that only moves when told.
fn stepped_clock() -> (std::sync::Arc<std::sync::atomic::AtomicI64>, crate::model::Clock) {
    use std::sync::atomic::Ordering;
    let seconds = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let read = seconds.clone();
    (
        seconds,
        std::sync::Arc::new(move || keepfs_vfs::Time {
            sec: read.load(Ordering::Relaxed),
            nsec: 0,
        }),
    )
}

#[test]
fn equal_file_systems_agree_in_everything_times_too() {
    let (seconds, clock) = stepped_clock();
    let (a, b) = (Model::with_clock(clock.clone()), Model::with_clock(clock));
    let ops: Vec<Op> = Generator::new(5, Profile::everything()).take(300).collect();
    let mut tick = || {
        seconds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    assert_eq!(first_disagreement(&a, &b, &ops, 1, Times::Keep, &mut tick), None);
}

#[test]
fn a_difference_is_found_and_shrinks_to_its_cause() {
    let disagree = |ops: &[Op]| {
        let small = Options {
            max_file_size: 1 << 20,
            ..Options::default()
        };
        let subject = Model::new(small, std::sync::Arc::new(keepfs_vfs::Time::default));
        first_disagreement(&Model::default(), &subject, ops, 0, Times::Ignore, &mut || ())
    };
    let ops: Vec<Op> = Generator::new(2, Profile::everything()).take(400).collect();
    assert!(disagree(&ops).is_some());
    let shortest = shrink(&ops, &mut |candidate| disagree(candidate).is_some());
    assert!(shortest.len() <= 3, "{}", print_all(&shortest));
    assert!(disagree(&shortest).is_some_and(|d| d.words.contains("EFBIG") || d.words.contains("Number")));
}
