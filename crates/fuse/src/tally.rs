//! How often each operation was asked for and where the server's time for it went, counted at every request, so that a
//! slow mount can be asked while it is slow. Costs three clock readings and a few additions a request
//! (`docs/decisions/0421-the-benchmark-compares-like-with-like.md`).

use crate::group::{self, GROUPS};
use crate::protocol::Opcode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Numbers of operations on the wire are below this.
const OPS: usize = 64;

/// What is counted of one operation, by one group of threads. Times in ns.
#[derive(Debug, Default)]
struct Counter {
    requests: AtomicU64,
    handed_over: AtomicU64,
    waited: AtomicU64,
    handled: AtomicU64,
    replied: AtomicU64,
}

/// The counters of a group of threads, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Group([Counter; OPS]);

/// See the head of the file.
#[derive(Debug)]
pub struct Tally {
    groups: Box<[Group]>,
}

/// One operation since the mount began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpTimes {
    /// Which.
    pub op: Opcode,
    /// Requests that were handled.
    pub requests: u64,
    /// Of them, those that a worker handled.
    pub handed_over: u64,
    /// From the arrival of requests to the moment when a worker took them; of those that the reader handled, nothing.
    pub waited: Duration,
    /// From there until the reply was complete: dispatcher and file system. Requests of one round of fsyncs took as long
    /// as the round, each.
    pub handled: Duration,
    /// Giving the reply to the kernel. Over io_uring replies go with the wait for the next request, and only what it
    /// takes to hand them to the ring's thread is counted.
    pub replied: Duration,
}

impl Default for Tally {
    fn default() -> Tally {
        let group = |_| Group(std::array::from_fn(|_| Counter::default()));
        Tally {
            groups: (0..GROUPS).map(group).collect(),
        }
    }
}

impl Tally {
    fn counter(&self, op: Opcode) -> &Counter {
        &self.groups[group::mine()].0[op as usize]
    }

    /// Counts a request that this thread has handled; `waited`: it was handed over, and waited so long.
    pub(crate) fn handled(&self, op: Opcode, waited: Option<Duration>, took: Duration) {
        let counter = self.counter(op);
        counter.requests.fetch_add(1, Ordering::Relaxed);
        add(&counter.handled, took);
        if let Some(waited) = waited {
            counter.handed_over.fetch_add(1, Ordering::Relaxed);
            add(&counter.waited, waited);
        }
    }

    /// Counts how long it took this thread to send the reply.
    pub(crate) fn replied(&self, op: Opcode, took: Duration) {
        add(&self.counter(op).replied, took);
    }

    /// All operations that were asked for, in the order of their numbers. Not one moment: requests go on.
    pub fn all(&self) -> Vec<OpTimes> {
        let times = Opcode::ALL.iter().map(|op| self.of(*op));
        times.filter(|times| times.requests > 0).collect()
    }

    fn of(&self, op: Opcode) -> OpTimes {
        let counters = || self.groups.iter().map(|group| &group.0[op as usize]);
        let sum = |part: fn(&Counter) -> &AtomicU64| counters().map(|c| part(c).load(Ordering::Relaxed)).sum::<u64>();
        OpTimes {
            op,
            requests: sum(|c| &c.requests),
            handed_over: sum(|c| &c.handed_over),
            waited: Duration::from_nanos(sum(|c| &c.waited)),
            handled: Duration::from_nanos(sum(|c| &c.handled)),
            replied: Duration::from_nanos(sum(|c| &c.replied)),
        }
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
