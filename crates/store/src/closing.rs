//! How writing ends and begins: a pool is closed, rests while its mount is read-only (S-20.15), is written again.

use crate::checkpoint::Wish;
use crate::error::Error;
use crate::{Store, recover};
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
        let settled = self.settle();
        self.keep_history();
        if let Some(guard) = &self.mmp {
            guard.leave();
        }
        settled
    }

    /// As [`Store::close`], but the store may be used on.
    pub fn settle(&self) -> Result<(), Error> {
        self.alive()?;
        if self.is_read_only() || self.is_closed() {
            return Ok(());
        }
        self.checkpoint_as(CLOSED)
    }

    /// As [`Store::settle`], and nothing is written behind it until [`Store::begin_writing`] (S-20.21): changes are refused.
    /// Nothing happens if it rests already or was opened read-only. Errors: those of a checkpoint; it is written on then. What ended
    /// writing before, of whichever life: not everything is on the device.
    pub fn rest(&self) -> Result<(), Error> {
        let mut keeper = self.keeper.lock();
        if self.rests.load(Ordering::Acquire) {
            return Ok(());
        }
        self.alive()?;
        if self.is_read_only() {
            return Ok(());
        }
        self.set_resting(true);
        if let Err(error) = self.checkpoint_with(&mut keeper, CLOSED) {
            self.set_resting(false);
            return Err(error);
        }
        drop(keeper);
        // Whoever writes it at this moment has ended then.
        self.write_history();
        Ok(())
    }

    fn set_resting(&self, rests: bool) {
        self.rests.store(rests, Ordering::Release);
        self.read_only.store(rests, Ordering::Release);
    }

    /// Errors: [`Error::ReadOnly`].
    pub(crate) fn unless_read_only(&self) -> Result<(), Error> {
        match self.is_read_only() {
            true => Err(Error::ReadOnly("it is mounted read-only".into())),
            false => Ok(()),
        }
    }

    /// Whether nothing is written: the pool was opened so or rests, and [`Store::begin_writing`] was not called since.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// A pool that was opened read-only is written from here on, as if it had been opened so: the log that was applied in
    /// memory is recovered on the device first (S-9.5). One that rests goes on. Nothing happens if it is written already.
    /// Errors: the device cannot be had alone, or has changed since; S-2.5; those of a checkpoint. Then it stays read-only.
    pub fn begin_writing(self: &Arc<Store>) -> Result<(), Error> {
        let mut keeper = self.keeper.lock();
        if !self.is_read_only() {
            return Ok(());
        }
        self.alive()?;
        if self.rests.load(Ordering::Acquire) {
            self.set_resting(false);
            return Ok(());
        }
        recover::begin_writing(self, &mut keeper)?;
        drop(keeper);
        self.read_only.store(false, Ordering::Release);
        match self.options.background {
            true => self.spawn(),
            false => Ok(()),
        }
    }

    /// Whether nothing happened since the superblock in force, which says CLEAN.
    fn is_closed(&self) -> bool {
        let in_force = self.superblock_in_force(&mut self.keeper.lock());
        in_force.is_ok_and(|sb| {
            sb.state.get() == keepfs_format::superblock::CLEAN
                && self.redo.lock().last == sb.seq.get()
                && self.log.lock().head.sequence == sb.log_seq.get()
                && self.cache.dirty.load(Ordering::Relaxed) == 0
        })
    }
}
