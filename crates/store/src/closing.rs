//! How writing ends and begins: a pool is closed, rests while its mount is read-only (S-20.15), is written again.

use crate::checkpoint::Wish;
use crate::error::Error;
use crate::{Flash, Store, recover};
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// What the last checkpoint is.
const CLOSED: Wish = Wish {
    clean: true,
    new_log: None,
};

impl Store {
    /// Makes everything durable, writes a last checkpoint, marks the pool as closed properly.
    pub fn close(&self) -> Result<(), Error> {
        self.end_threads();
        let settled = self.home.settle(self);
        self.keep_history();
        if let Some(guard) = &self.life.mmp {
            guard.leave();
        }
        settled
    }

    /// As [`Store::settle`], and nothing is written behind it until [`Store::begin_writing`] (S-20.21): changes are refused.
    /// Nothing happens if it rests already or was opened read-only. Errors: those of a checkpoint; it is written on then. What ended
    /// writing before, of whichever life: not everything is on the device.
    pub fn rest(&self) -> Result<(), Error> {
        if self.home.rest(self)? {
            // Whoever writes it at this moment has ended then.
            self.write_history();
        }
        Ok(())
    }

    /// A pool that was opened read-only is written from here on, as if it had been opened so: the log that was applied in
    /// memory is recovered on the device first (S-9.5). One that rests goes on. Nothing happens if it is written already.
    /// Errors: the device cannot be had alone, or has changed since; S-2.5; those of a checkpoint. Then it stays read-only.
    pub fn begin_writing(self: &Arc<Store>) -> Result<(), Error> {
        match self.home.begin_writing(self)? && self.life.options.background {
            true => self.spawn(),
            false => Ok(()),
        }
    }
}

impl Flash {
    /// See [`Store::rest`]. Whether it rests from now on.
    pub(crate) fn rest(&self, store: &Store) -> Result<bool, Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        if store.life.rests.load(Ordering::Acquire) {
            return Ok(false);
        }
        store.alive()?;
        if store.life.is_read_only() {
            return Ok(false);
        }
        store.life.set_resting(true);
        match self.checkpoint_with(store, &mut keeper, CLOSED) {
            Ok(()) => Ok(true),
            Err(error) => {
                store.life.set_resting(false);
                Err(error)
            }
        }
    }

    /// See [`Store::begin_writing`]. Whether it is written for the first time.
    pub(crate) fn begin_writing(&self, store: &Store) -> Result<bool, Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        if !store.life.is_read_only() {
            return Ok(false);
        }
        store.alive()?;
        if store.life.rests.load(Ordering::Acquire) {
            store.life.set_resting(false);
            return Ok(false);
        }
        recover::begin_writing(self, store, &mut keeper)?;
        drop(keeper);
        store.life.read_only.store(false, Ordering::Release);
        Ok(true)
    }

    /// See [`Store::settle`].
    pub(crate) fn settle(&self, store: &Store) -> Result<(), Error> {
        store.alive()?;
        if store.life.is_read_only() || self.is_closed(store) {
            return Ok(());
        }
        self.checkpoint_as(store, CLOSED)
    }

    /// Whether nothing happened since the superblock in force, which says CLEAN.
    fn is_closed(&self, store: &Store) -> bool {
        let in_force = self.superblock_in_force(store, &mut self.checkpoints.keeper.lock());
        in_force.is_ok_and(|sb| {
            sb.state.get() == keepfs_format::superblock::CLEAN
                && self.log.redo.lock().last == sb.seq.get()
                && self.log.end.lock().head.sequence == sb.log_seq.get()
                && store.frames.cache.dirty.load(Ordering::Relaxed) == 0
        })
    }
}
