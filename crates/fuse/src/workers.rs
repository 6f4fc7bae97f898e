//! Threads for slow work, so that a reader never waits for a device: fsync, sync, big reads and writes, copies.
//!
//! Workers start when work waits and nobody is idle, up to a limit, and stay.

use crate::transport::{Channel, RequestBuf};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Instant;

/// Big request buffers kept for the next big request.
const SPARES_MAX: usize = 8;

/// A request that waits for a worker.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) channel: Channel,
    pub(crate) unique: u64,
    /// The thread that asks.
    pub(crate) task: u32,
    /// When it was handed over.
    pub(crate) arrived: Instant,
    pub(crate) request: RequestBuf,
}

/// What a worker is woken for.
#[derive(Debug)]
pub(crate) enum Work {
    /// One request.
    Request(Job),
    /// A round of fsyncs ([`crate::syncs`]).
    Syncs,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    spares: Vec<RequestBuf>,
    idle: usize,
    threads: usize,
    stopping: bool,
}

/// The queue between readers and workers.
pub(crate) struct Workers {
    state: Mutex<State>,
    work: Condvar,
    ended: Condvar,
    max: usize,
}

impl Workers {
    pub(crate) fn new(max: usize) -> Workers {
        let (state, work, ended) = (Mutex::default(), Condvar::new(), Condvar::new());
        Workers {
            state,
            work,
            ended,
            max: max.max(1),
        }
    }

    /// Queues work. `true`: the caller must start one more worker, which is counted already.
    pub(crate) fn push(&self, work: Work) -> bool {
        let mut state = self.state.lock();
        state.queue.push_back(work);
        if state.idle >= state.queue.len() {
            self.work.notify_one();
            return false;
        }
        let start = state.threads < self.max && !state.stopping;
        state.threads += usize::from(start);
        start
    }

    /// What a worker does next; `None`: end.
    pub(crate) fn next(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.queue.pop_front() {
                return Some(work);
            }
            if state.stopping {
                return None;
            }
            state.idle += 1;
            self.work.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// Work if some waits.
    pub(crate) fn poll(&self) -> Option<Work> {
        self.state.lock().queue.pop_front()
    }

    /// A buffer for the reader whose own went into a job.
    pub(crate) fn spare(&self, size: usize) -> RequestBuf {
        self.state.lock().spares.pop().unwrap_or_else(|| RequestBuf::new(size))
    }

    /// Gives a big buffer back.
    pub(crate) fn give_back(&self, buf: RequestBuf) {
        let mut state = self.state.lock();
        if state.spares.len() < SPARES_MAX {
            state.spares.push(buf);
        }
    }

    /// Says that a worker has ended, or could not be started.
    pub(crate) fn ended(&self) {
        self.state.lock().threads -= 1;
        self.ended.notify_all();
    }

    /// Whether no worker is there to take jobs.
    pub(crate) fn none_running(&self) -> bool {
        self.state.lock().threads == 0
    }

    /// Lets the workers finish what is queued and waits until all have ended.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        self.work.notify_all();
        while state.threads > 0 {
            self.ended.wait(&mut state);
        }
    }
}

#[cfg(test)]
mod tests;
