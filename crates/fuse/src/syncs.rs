//! FSYNC requests that wait to be made durable together: one round of a worker does for all that have come.
//!
//! A worker for each would sleep on the same flush and be woken for nothing but its reply. What comes while a flush is
//! under way shares the next one.

use crate::workers::Job;
use parking_lot::Mutex;

#[derive(Default)]
struct State {
    waiting: Vec<Job>,
    /// A worker does rounds, or was told to begin.
    running: bool,
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<State>);

impl Syncs {
    /// Queues a request. `true`: the caller must have a worker begin rounds.
    pub(crate) fn push(&self, job: Job) -> bool {
        let mut state = self.0.lock();
        state.waiting.push(job);
        !core::mem::replace(&mut state.running, true)
    }

    /// What a round does: all that wait now. Nothing: the worker ends its rounds.
    pub(crate) fn take(&self) -> Vec<Job> {
        let mut state = self.0.lock();
        state.running = !state.waiting.is_empty();
        core::mem::take(&mut state.waiting)
    }
}

#[cfg(test)]
mod tests;
