//! What a server has done: the counters of its mount, and its threads as the system sees them.

use crate::figures::{OperationFigures, ServingFigures, ThreadFigures};
use keepfs_fuse::{OpTimes, Tally};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What the mount of `tally` was asked for. The threads are for the asker to look at ([`threads_of`]): a server may not open
/// files.
pub fn serving(tally: &Tally) -> ServingFigures {
    ServingFigures {
        operations: tally.all().iter().map(operation).collect(),
        threads: Vec::new(),
    }
}

/// What the threads of a server have done.
pub fn threads_of(server_pid: u32) -> Vec<ThreadFigures> {
    threads(Path::new(&format!("/proc/{server_pid}/task")))
}

fn operation(times: &OpTimes) -> OperationFigures {
    let ns = |time: std::time::Duration| time.as_nanos() as u64;
    OperationFigures {
        name: times.op.name().into(),
        requests: times.requests,
        handed_over: times.handed_over,
        waited_ns: ns(times.waited),
        handled_ns: ns(times.handled),
        replied_ns: ns(times.replied),
    }
}

/// The threads by name; those that end meanwhile, or of which the kernel tells nothing (CONFIG_SCHED_INFO), are left out.
fn threads(task: &Path) -> Vec<ThreadFigures> {
    let mut all: BTreeMap<String, ThreadFigures> = BTreeMap::new();
    for entry in fs::read_dir(task).into_iter().flatten().flatten() {
        let Some(one) = thread(&entry.path()) else { continue };
        let sum = all.entry(one.name.clone()).or_insert_with(|| ThreadFigures {
            name: one.name.clone(),
            threads: 0,
            ran_ns: 0,
            runnable_ns: 0,
            runs: 0,
        });
        sum.threads += one.threads;
        sum.ran_ns += one.ran_ns;
        sum.runnable_ns += one.runnable_ns;
        sum.runs += one.runs;
    }
    all.into_values().collect()
}

/// `schedstat` is three numbers: ns on a processor, ns waiting for one, times that it began to run.
fn thread(dir: &Path) -> Option<ThreadFigures> {
    let name = fs::read_to_string(dir.join("comm")).ok()?.trim_end().to_owned();
    let text = fs::read_to_string(dir.join("schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    Some(ThreadFigures {
        name,
        threads: 1,
        ran_ns: next()?,
        runnable_ns: next()?,
        runs: next()?,
    })
}

#[cfg(test)]
mod tests;
