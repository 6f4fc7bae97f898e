//! The thread that makes redo durable before its ring is full, so that no caller pays for what all have left (S-14.13).

use crate::error::Error;
use crate::locks::{Condvar, Mutex};
use crate::worker::Worker;
use crate::{Flash, Store};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A wish for a group.
#[derive(Default)]
pub struct Cutter {
    /// Somebody has asked since the thread began to cut; looked at before every transaction.
    asked: AtomicBool,
    stop: Mutex<bool>,
    changed: Condvar,
    thread: Worker,
}

impl Cutter {
    /// Asks for everything committed so far to be made durable soon.
    pub fn ask(&self) {
        // Who only looks leaves the flag with everybody.
        if !self.asked.load(Ordering::Acquire) && !self.asked.swap(true, Ordering::AcqRel) {
            // Under the lock, so that the thread is not between its look and its sleep.
            let _stop = self.stop.lock();
            self.changed.notify_one();
        }
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
    fn wait(&self) -> bool {
        let mut stop = self.stop.lock();
        while !*stop && !self.asked.load(Ordering::Acquire) {
            self.changed.wait(&mut stop);
        }
        !*stop
    }
}

/// Starts the thread. It ends when the store is closed or gone.
pub fn spawn(flash: &Flash, store: &Arc<Store>) -> Result<(), Error> {
    let cutter = flash.log.cutter.clone();
    let place = cutter.clone();
    let store = Arc::downgrade(store);
    let work = move || {
        while cutter.wait() {
            let Some(store) = store.upgrade() else { return };
            let done = store.home.sync(&store);
            // What was committed while the group was cut asks again.
            cutter.asked.store(false, Ordering::Release);
            if let Err(error) = done {
                tracing::error!(%error, "redo could not be made durable in the background");
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("keepfs-log".into()).spawn(work);
    let thread = spawned.map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))?;
    place.thread.put(thread);
    Ok(())
}
