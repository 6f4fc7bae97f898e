//! What a home, frames and transactions of an open pool stand on.

use crate::ending::Ending;
use crate::error::Error;
use crate::events::Events;
use crate::history::{Failed, History};
use crate::options::StoreOptions;
use crate::pool::Pool;
use crate::stats::Stats;
use crate::switch::Switch;
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_vault::Padded;
use std::sync::Arc;
use std::time::Instant;

/// See the head of the file.
pub struct Ground {
    /// Where the pool's pages are.
    pub device: Arc<Switch>,
    /// What never changes of it.
    pub pool: Pool,
    /// As it was opened.
    pub options: StoreOptions,
    /// Nothing is written (yet).
    read_only: AtomicBool,
    /// It was written, and is closed until it is written again.
    rests: AtomicBool,
    /// What ended writing, or ends the process.
    pub ending: Ending,
    /// What happened, as it is told and kept.
    pub events: Events,
    /// Counters.
    pub stats: Padded<Stats>,
}

impl Ground {
    /// Of a pool on a device, of which nothing was told yet.
    pub fn of(device: Arc<Switch>, pool: Pool, o: &StoreOptions) -> Ground {
        Ground {
            events: Events::of(History::new(device.clone(), pool.id, pool.history)),
            device,
            pool,
            options: o.clone(),
            read_only: AtomicBool::new(o.read_only),
            rests: AtomicBool::new(false),
            ending: Ending::default(),
            stats: Padded::default(),
        }
    }

    /// It rests, or is written again.
    pub fn set_resting(&self, rests: bool) {
        self.rests.store(rests, Ordering::Release);
        self.read_only.store(rests, Ordering::Release);
    }

    /// Whether it was written, and is closed until it is written again.
    pub fn rests(&self) -> bool {
        self.rests.load(Ordering::Acquire)
    }

    /// It was opened for reading, and is written from here on.
    pub fn begin_writing(&self) {
        self.read_only.store(false, Ordering::Release);
    }

    /// Whether nothing is written: the pool was opened so or rests, and was not written since.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Errors: [`Error::ReadOnly`].
    #[inline]
    pub fn unless_read_only(&self) -> Result<(), Error> {
        match self.is_read_only() {
            true => Err(Error::ReadOnly("it is mounted read-only".into())),
            false => Ok(()),
        }
    }

    /// Fails if the pool was shut down or a failure ended writing.
    #[inline]
    pub fn alive(&self) -> Result<(), Error> {
        if self.device.is_off() {
            return Err(Error::Dead);
        }
        match self.ending.fault.get() {
            Some(told @ Error::ReadOnly(_)) => Err(told.clone()),
            Some(e) => Err(Error::ReadOnly(e.to_string())),
            None => Ok(()),
        }
    }

    /// A failure after which nothing may be written until the pool is opened again.
    pub fn fail(&self, error: Error) -> Error {
        if !self.device.is_off() {
            self.ending.fault.get_or_init(|| {
                if let Error::Heap { address } = &error {
                    let done = self.ending.done_at_the_end();
                    self.events.tell_heap(*address, done, "it tells where metadata lies");
                }
                if let Some(end) = self.ending.successor.get().filter(|_| error.is_of_this_memory()) {
                    end(&error);
                }
                tracing::error!(%error, "the pool is read-only from here on");
                if let (Error::Device(_), Some(note)) = (&error, self.ending.device_failed.get()) {
                    note();
                }
                error.clone()
            });
        }
        error
    }

    /// A page was read; if its checksum is wrong, that is counted.
    pub fn count_bad_checksum(&self, is_bad: bool) {
        self.stats.bad_checksums.fetch_add(u64::from(is_bad), Ordering::Relaxed);
    }

    /// Writes what the history has not on the device yet; nothing happens on a pool that is read only. An error goes to
    /// the log of the server, never into the history (H-2).
    pub fn keep_history(&self) {
        if self.is_read_only() || self.device.is_off() {
            return;
        }
        self.write_history();
    }

    /// The same of any pool.
    pub fn write_history(&self) {
        match self.events.history.keep() {
            Ok(()) => {}
            Err(Failed::Write(error)) => tracing::warn!(%error, "the history of the pool cannot be written"),
            // A flush that fails is told once, to whoever flushed: others must hear of it.
            Err(Failed::Flush(error)) => {
                self.fail(error.into());
            }
        }
    }

    /// Starts the thread that writes the history soon after it was changed. It ends when the pool is closed.
    pub fn spawn_history(self: &Arc<Ground>) -> Result<(), Error> {
        let history = self.events.history.clone();
        let place = history.clone();
        let ground = Arc::downgrade(self);
        let work = move || {
            let mut last = None;
            while history.wait(last) {
                let Some(ground) = ground.upgrade() else { return };
                ground.keep_history();
                last = Some(Instant::now());
            }
        };
        let spawned = std::thread::Builder::new().name("keepfs-history".into()).spawn(work);
        let thread = spawned.map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))?;
        place.thread.put(thread);
        Ok(())
    }
}
