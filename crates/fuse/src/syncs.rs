//! FSYNC requests that wait to be made durable together: one round of a worker does for all that have come.
//!
//! A worker for each would sleep on the same flush and be woken for nothing but its reply. The next round begins when the
//! flush of the last one has returned, while its replies are still being sent: what came meanwhile shares that flush.

use crate::workers::Job;
use parking_lot::Mutex;

#[derive(Default)]
struct State {
    waiting: Vec<Job>,
    /// A round is under way, or a worker was told to begin one.
    running: bool,
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<State>);

impl Syncs {
    /// Queues a request. `true`: the caller must have a worker begin a round.
    pub(crate) fn push(&self, job: Job) -> bool {
        let mut state = self.0.lock();
        state.waiting.push(job);
        !core::mem::replace(&mut state.running, true)
    }

    /// What a round does: all that wait now.
    pub(crate) fn take(&self) -> Vec<Job> {
        core::mem::take(&mut self.0.lock().waiting)
    }

    /// The flush of a round has returned. `true`: the caller must have a worker begin another one.
    pub(crate) fn flushed(&self) -> bool {
        let mut state = self.0.lock();
        state.running = !state.waiting.is_empty();
        state.running
    }
}

#[cfg(test)]
mod tests;
