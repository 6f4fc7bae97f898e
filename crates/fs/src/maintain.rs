//! The background thread of a volume: commit interval, staged data that outlived its log, the hidden list.

use crate::Volume;
use crate::data::log_write_out;
use crate::errors::Result;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Inodes whose staged pages are looked at in one interval.
const BATCH: usize = 1024;

/// Checkpoints of one interval that do no more than give back what metadata does not need any more.
const PARTS: usize = 16;

/// How long what is not urgent waits for more of its kind: a wake-up for each unlinked file costs as much as the unlink.
const GATHER: Duration = Duration::from_millis(10);

/// What the thread is told.
#[derive(Default)]
struct Orders {
    wake: bool,
    /// Something that is not urgent waits until then.
    soon: Option<Instant>,
    stop: bool,
}

impl Orders {
    /// Takes what is to be done now: whether there are errands. `None`: nothing yet.
    fn take(&mut self, now: Instant, due: Instant) -> Option<bool> {
        let errands = self.wake || self.soon.is_some_and(|soon| soon <= now);
        if errands {
            (self.wake, self.soon) = (false, None);
        }
        (errands || now >= due).then_some(errands)
    }
}

#[derive(Default)]
struct Signal {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// The thread, if there is one.
#[derive(Default)]
pub(crate) struct Worker {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Worker {
    /// There is something to do before the interval is over.
    pub fn wake(&self) {
        self.signal.orders.lock().wake = true;
        self.signal.changed.notify_one();
    }

    /// There is something to do before the interval is over, which can wait for more of its kind.
    pub fn wake_soon(&self) {
        let mut orders = self.signal.orders.lock();
        if orders.soon.is_none() {
            orders.soon = Some(Instant::now() + GATHER);
            self.signal.changed.notify_one();
        }
    }

    /// Whether the thread was told to end.
    fn is_stopped(&self) -> bool {
        self.signal.orders.lock().stop
    }

    /// Ends the thread and waits for it, unless this is it.
    pub fn stop(&self) {
        self.signal.orders.lock().stop = true;
        self.signal.changed.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the background thread panicked");
        }
    }
}

impl Volume {
    /// Starts the thread. It holds no reference that would keep the volume alive.
    pub(crate) fn start_worker(self: &Arc<Self>, interval: Duration) {
        let (volume, signal) = (Arc::downgrade(self), self.worker.signal.clone());
        let thread = std::thread::Builder::new()
            .name("keepfs-commit".into())
            .spawn(move || run(&volume, &signal, interval));
        match thread {
            Ok(thread) => *self.worker.thread.lock() = Some(thread),
            Err(error) => {
                tracing::error!(%error, "no background thread; changes are durable at fsync and unmount only")
            }
        }
    }

    /// What an interval does: data that a checkpoint had to carry over is written out, everything becomes durable. Until
    /// then the log has it, and what is deleted or changed meanwhile never costs a page (decision 0490).
    fn tick(&self) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let old = self.store.staged_before_checkpoint(BATCH);
        if let Err(error) = self.write_out_inodes(&old) {
            log_write_out(&error);
        }
        self.store.sync()?;
        self.count_spare()?;
        // Metadata became much less: its pages come back a part at a time.
        for _ in 0..PARTS {
            if !self.give_part()? {
                break;
            }
        }
        Ok(())
    }

    /// What a wake-up does, until the interval is over.
    fn errands(&self, due: Instant) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        if self.store.staged_weight() > self.staged_pages_max {
            self.write_out_down_to(self.staged_pages_max / 2)?;
        }
        let all = self.finish_left(Some(due))?;
        if !self.reclaim_until(Some(due))? || !all {
            self.worker.wake_soon();
        }
        Ok(())
    }

    /// Makes everything durable and marks the pool as closed properly, as the end does, but the volume goes on. Errors: those of
    /// the device.
    pub fn settle(&self) -> Result<()> {
        self.finish()?;
        Ok(self.store.settle()?)
    }

    /// The same, and nothing is written behind it until [`Volume::begin_writing`] (`mount -o remount,ro`, S-20.15): what the kernel
    /// gives back then stays on the hidden list. Errors: as [`keepfs_store::Store::rest`]; the volume takes changes as before then.
    pub fn rest(&self) -> Result<()> {
        let _begun = self.begun.lock();
        if !self.is_read_only() {
            self.wait_for_all_lookups();
            self.finish()?;
        }
        Ok(self.store.rest()?)
    }

    /// Whether the volume is being ended, or is.
    pub fn is_ending(&self) -> bool {
        self.worker.is_stopped()
    }

    /// Does all that waits for time, unless the volume is read-only.
    fn finish(&self) -> Result<()> {
        if !self.is_read_only() {
            self.finish_left(None)?;
            self.reclaim_now()?;
            self.write_out_down_to(0)?;
        }
        Ok(())
    }

    /// Ends the volume: nobody holds anything any more, all is made durable.
    pub(crate) fn do_unmount(&self) -> Result<()> {
        self.scrubber.stop();
        self.worker.stop();
        self.lookups.clear();
        self.finish()?;
        if !self.is_read_only() {
            self.heal_damage();
        }
        Ok(self.store.close()?)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.scrubber.stop();
        self.worker.stop();
    }
}

fn run(volume: &Weak<Volume>, signal: &Signal, interval: Duration) {
    let mut due = Instant::now() + interval;
    loop {
        let woken = {
            let mut orders = signal.orders.lock();
            loop {
                if orders.stop {
                    return;
                }
                if let Some(errands) = orders.take(Instant::now(), due) {
                    break errands;
                }
                let until = orders.soon.map_or(due, |soon| soon.min(due));
                signal.changed.wait_until(&mut orders, until);
            }
        };
        let Some(volume) = volume.upgrade() else { return };
        if woken
            && let Err(error) = volume.errands(due)
            && !volume.is_read_only()
        {
            tracing::warn!(%error, "background work failed");
        }
        if Instant::now() >= due {
            if let Err(error) = volume.tick()
                && !volume.is_read_only()
            {
                tracing::warn!(%error, "background commit failed");
            }
            due = Instant::now() + interval;
        }
    }
}

#[cfg(test)]
mod tests;
