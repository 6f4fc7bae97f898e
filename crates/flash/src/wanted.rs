//! What the thread waits for that writes checkpoints when somebody wants one.

use keepfs_pool::worker::Worker;
use keepfs_vault::locks::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long nothing must happen after a flush until `durable` is written (S-9.16).
const IDLE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    wanted: bool,
    stop: bool,
    /// A group was flushed and no later page says so.
    flushed: bool,
    /// Checkpoints that ended.
    ended: u64,
}

/// What the thread shall do.
pub enum Task {
    /// Write a checkpoint.
    Checkpoint,
    /// Tell the device what is durable.
    Durable,
    /// End.
    Stop,
}

/// A wish for a checkpoint.
#[derive(Default)]
pub struct Wanted {
    state: Mutex<State>,
    changed: Condvar,
    ended: Condvar,
    /// Who writes them.
    pub thread: Worker,
}

impl Wanted {
    /// Asks for a checkpoint.
    #[inline]
    pub fn set(&self) {
        let mut state = self.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.changed.notify_all();
        }
    }

    /// Whether one is asked for.
    pub fn is_set(&self) -> bool {
        self.state.lock().wanted
    }

    /// A checkpoint was written, or cannot be.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.wanted = false;
        state.ended += 1;
        self.ended.notify_all();
    }

    /// Waits until a checkpoint ends, at most `time`.
    pub fn wait_done(&self, time: Duration) {
        let mut state = self.state.lock();
        let before = state.ended;
        let until = Instant::now() + time;
        while state.ended == before && !self.ended.wait_until(&mut state, until).timed_out() {}
    }

    /// No more checkpoints in the background.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for the end of the thread that was told to stop.
    pub fn join(&self) {
        self.thread.join();
    }

    /// A group was flushed.
    pub fn flushed(&self) {
        let mut state = self.state.lock();
        if !state.flushed {
            state.flushed = true;
            self.changed.notify_all();
        }
    }

    /// Waits for something to do.
    pub fn wait(&self) -> Task {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return Task::Stop;
            }
            if state.wanted {
                return Task::Checkpoint;
            }
            if !state.flushed {
                self.changed.wait(&mut state);
            } else if self.changed.wait_for(&mut state, IDLE).timed_out() {
                state.flushed = false;
                return Task::Durable;
            }
        }
    }
}
