//! Who begins a round, and what it takes.

use super::*;
use crate::transport::{Channel, RequestBuf};
use std::time::Instant;

fn job(unique: u64) -> Job {
    Job {
        channel: Channel::FIRST,
        unique,
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
