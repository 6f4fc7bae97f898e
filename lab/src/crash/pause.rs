//! A device that can stop a checkpoint half-way, so that operations run beside it at a moment of our choice.

use keepfs_media::{Class, DeviceError, PageNo};
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_testkit::sim::SimDevice;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How long a stopped checkpoint waits at most: if an operation beside it waits for the checkpoint, both go on.
const PATIENCE: Duration = Duration::from_millis(200);

/// A stop that is planned.
struct Stop {
    /// Places of the checkpoint before it.
    left: u32,
    reached: Sender<()>,
    go: Receiver<()>,
}

/// Both ends of a stop, for whoever planned it.
pub struct Stopped {
    /// Gets a message when the checkpoint stops; is cut off if it ends without.
    pub reached: Receiver<()>,
    /// Lets it go on, also by being dropped.
    pub go: Sender<()>,
}

/// The recording device with stops.
pub type PauseDevice = Hooked<Arc<SimDevice>, Stops>;

/// Where it stops.
#[derive(Default)]
pub struct Stops {
    plan: Mutex<Option<Stop>>,
    reached: AtomicU64,
    ran_out: AtomicU64,
}

impl Stops {
    /// The checkpoint waits at the `after`-th place from now on: before a write of metadata, map or superblock, or behind one of the
    /// last two, where a flush may follow. Never in a flush: others that flush would wait for it (S-10.11).
    pub fn stop_after(&self, after: u32) -> Stopped {
        let (reached, is_reached) = channel();
        let (go, may_go) = channel();
        *self.plan.lock() = Some(Stop {
            left: after,
            reached,
            go: may_go,
        });
        Stopped {
            reached: is_reached,
            go,
        }
    }

    /// No stop any more: nobody reached it.
    pub fn forget_stop(&self) {
        self.plan.lock().take();
    }

    /// How many stops there were since this was asked last, and how many of them ended by patience: nothing ran beside those
    /// to its end.
    pub fn take_counts(&self) -> (u64, u64) {
        (
            self.reached.swap(0, Ordering::Relaxed),
            self.ran_out.swap(0, Ordering::Relaxed),
        )
    }

    fn pass(&self) {
        let mut stop = self.plan.lock();
        match &mut *stop {
            Some(s) if s.left > 0 => s.left -= 1,
            Some(_) => {
                let Some(now) = stop.take() else { return };
                drop(stop);
                // An end that is gone says the same as a message: go on.
                if now.reached.send(()).is_ok() {
                    self.reached.fetch_add(1, Ordering::Relaxed);
                    if now.go.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                        self.ran_out.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            None => {}
        }
    }
}

impl Hooks for Stops {
    fn before_write(&self, _: PageNo, _: usize, class: Class) -> Result<(), DeviceError> {
        if matches!(class, Class::Metadata | Class::Map | Class::Superblock) {
            self.pass();
        }
        Ok(())
    }
    fn after_write(&self, _: PageNo, _: usize, class: Class) {
        if matches!(class, Class::Map | Class::Superblock) {
            self.pass();
        }
    }
}

#[cfg(test)]
mod tests;
