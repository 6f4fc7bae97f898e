//! Who begins a round, what it takes, and for whom it waits.

use super::*;
use crate::transport::{Channel, RequestBuf};

/// A request of the task of the same number.
fn job(unique: u64) -> Job {
    Job {
        channel: Channel::FIRST,
        unique,
        task: unique as u32,
        arrived: Instant::now(),
        request: RequestBuf::default(),
    }
}

fn numbers(jobs: &[Job]) -> Vec<u64> {
    jobs.iter().map(|job| job.unique).collect()
}

#[test]
fn one_round_takes_all_that_wait() {
    let syncs = Syncs::default();
    assert!(syncs.push(job(1)), "the first one begins a round");
    assert!(!syncs.push(job(2)), "and does for those that come before it begins");
    assert_eq!(numbers(&syncs.take()), [1, 2]);
    assert!(!syncs.push(job(3)), "a round is under way");
    assert_eq!(numbers(&syncs.take()), [3], "the next one is for what came meanwhile");
    assert_eq!(numbers(&syncs.take()), [], "nothing came: the worker ends");
    assert!(syncs.push(job(4)), "so the next to come begins again");
}

#[test]
fn a_task_alone_never_waits() {
    let mut state = State {
        mean: LONGEST,
        ..State::default()
    };
    assert_eq!(state.patience(), None, "nobody waits");
    for _ in 0..3 {
        state.waiting.push(job(1));
        assert_eq!(state.patience(), None);
        state.begin();
    }
}

#[test]
fn a_round_waits_for_tasks_that_synced_lately() {
    let mut state = State {
        mean: LONGEST,
        trust: STEPS,
        ..State::default()
    };
    state.waiting = vec![job(1), job(2)];
    state.begin();
    state.waiting = vec![job(3)];
    assert_eq!(state.patience(), Some(LONGEST / PART), "two more are about to come");
    state.waiting.push(job(1));
    assert_eq!(state.patience(), None, "as many as in the round before");
    state.begin();
    state.waiting = vec![job(1), job(2)];
    assert_eq!(
        state.patience(),
        Some(LONGEST / PART),
        "1, 2 and 3 synced in the last two rounds"
    );
    state.begin();
    state.waiting = vec![job(1)];
    assert_eq!(state.patience(), Some(LONGEST / PART));
    state.begin();
    state.waiting = vec![job(1)];
    state.begin();
    state.waiting = vec![job(1)];
    assert_eq!(state.patience(), None, "the others are forgotten after two rounds");
}

#[test]
fn a_round_of_enough_waits_for_no_more() {
    let mut state = State {
        mean: LONGEST,
        trust: STEPS,
        ..State::default()
    };
    let tasks = |number| (1..=number).map(job).collect();
    state.waiting = tasks(16);
    state.begin();
    state.waiting = tasks(ENOUGH as u64 - 1);
    assert_eq!(state.patience(), Some(LONGEST / PART), "one more makes enough");
    state.waiting.push(job(16));
    assert_eq!(
        state.patience(),
        None,
        "eight more synced lately, but a flush for these is cheap enough"
    );
}

#[test]
fn waits_that_bring_nobody_become_short() {
    let mut state = State {
        mean: LONGEST * 100,
        expected: 2,
        waiting: vec![job(1)],
        ..State::default()
    };
    state.waited(true);
    assert_eq!(state.patience(), Some(LONGEST), "however long a round is");
    for _ in 0..9 {
        state.waited(false);
    }
    assert_eq!(state.patience(), Some(LONGEST / STEPS));
    state.waited(true);
    assert_eq!(state.patience(), Some(LONGEST), "one that paid makes them long again");
}
