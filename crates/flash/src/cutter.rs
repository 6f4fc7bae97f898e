//! What the thread waits for that makes redo durable before its ring is full, so that no caller pays for what all have left (S-14.13).

use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_pool::worker::Worker;
use keepfs_vault::locks::{Condvar, Mutex};

/// A wish for a group.
#[derive(Default)]
pub struct Cutter {
    /// Somebody has asked since the thread began to cut; looked at before every transaction.
    asked: AtomicBool,
    stop: Mutex<bool>,
    changed: Condvar,
    /// Who makes it durable.
    pub thread: Worker,
}

impl Cutter {
    /// Asks for everything committed so far to be made durable soon.
    #[inline]
    pub fn ask(&self) {
        // Who only looks leaves the flag with everybody.
        if !self.asked.load(Ordering::Acquire) && !self.asked.swap(true, Ordering::AcqRel) {
            // Under the lock, so that the thread is not between its look and its sleep.
            let _stop = self.stop.lock();
            self.changed.notify_one();
        }
    }

    /// A group was cut: what was committed meanwhile asks again.
    pub fn done(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// No more groups from the thread.
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.changed.notify_one();
    }

    /// Waits for the end of the thread that was told to stop.
    pub fn join(&self) {
        self.thread.join();
    }

    /// Waits until somebody asks; `false`: to stop.
    pub fn wait(&self) -> bool {
        let mut stop = self.stop.lock();
        while !*stop && !self.asked.load(Ordering::Acquire) {
            self.changed.wait(&mut stop);
        }
        !*stop
    }
}
