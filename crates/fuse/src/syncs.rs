//! FSYNC requests that wait to be made durable together: one round of a worker does for all that have come.
//!
//! A worker for each would sleep on the same flush and be woken for nothing but its reply. What comes while a flush is
//! under way shares the next one; where several tasks sync, the next one waits a little for those that are about to
//! come, unless enough are here already (decision 0667). A task that syncs alone never waits.

use crate::workers::Job;
use parking_lot::{Condvar, Mutex};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// The longest that a round waits for company.
const LONGEST: Duration = Duration::from_millis(1);
/// A round waits for at most this part of the mean time of a round: it then costs its callers half as much again.
const PART: u32 = 2;
/// So many make a round that waits for no more: each has an eighth of a flush, one more would save each a seventieth of one.
const ENOUGH: usize = 8;
/// Waits that bring nobody make the next ones shorter, down to one of these parts.
const STEPS: u32 = 4;
/// The mean moves by this part of the difference.
const WEIGHT: u32 = 8;

#[derive(Default)]
struct State {
    waiting: Vec<Job>,
    /// A worker does rounds, or was told to begin.
    running: bool,
    /// Tasks of the last round.
    tasks: HashSet<u32>,
    /// How many tasks the last two rounds did for.
    expected: usize,
    /// Mean time of a round.
    mean: Duration,
    /// Of [`STEPS`]: how well waiting has paid.
    trust: u32,
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Syncs {
    state: Mutex<State>,
    came: Condvar,
}

impl Syncs {
    /// Queues a request. `true`: the caller must have a worker begin rounds.
    pub(crate) fn push(&self, job: Job) -> bool {
        let mut state = self.state.lock();
        state.waiting.push(job);
        let begins = !core::mem::replace(&mut state.running, true);
        if !begins && state.all_came() {
            self.came.notify_one();
        }
        begins
    }

    /// What a round does: all that wait now, and who comes within the time that a round waits for company. Nothing: the worker
    /// ends its rounds.
    pub(crate) fn take(&self) -> Vec<Job> {
        let mut state = self.state.lock();
        let before = state.waiting.len();
        if let Some(patience) = state.patience() {
            let until = Instant::now() + patience;
            while !state.all_came() && !self.came.wait_until(&mut state, until).timed_out() {}
            let more = state.waiting.len() > before;
            state.waited(more);
        }
        state.begin()
    }

    /// A round took so long.
    pub(crate) fn took(&self, time: Duration) {
        let mut state = self.state.lock();
        state.mean = (state.mean * (WEIGHT - 1) + time) / WEIGHT;
    }
}

impl State {
    /// How long to wait for company; `None`: nobody waits, nobody else is known, or all are here.
    fn patience(&self) -> Option<Duration> {
        let some = !self.waiting.is_empty() && !self.all_came();
        some.then(|| (self.mean / PART).min(LONGEST) * self.trust.max(1) / STEPS)
    }

    /// Whether as many wait as synced lately, or enough; a task waits once at most.
    fn all_came(&self) -> bool {
        self.waiting.len() >= self.expected.min(ENOUGH)
    }

    fn waited(&mut self, more: bool) {
        self.trust = match more {
            true => STEPS,
            false => self.trust.saturating_sub(1),
        };
    }

    fn begin(&mut self) -> Vec<Job> {
        self.running = !self.waiting.is_empty();
        let tasks = self.waiting.iter().map(|job| job.task).collect();
        self.expected = self.tasks.union(&tasks).count();
        self.tasks = tasks;
        core::mem::take(&mut self.waiting)
    }
}

#[cfg(test)]
mod tests;
