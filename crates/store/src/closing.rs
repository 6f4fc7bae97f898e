//! How writing ends and begins: a pool is closed, rests while its mount is read-only (S-20.15), is written again.

use crate::error::Error;
use crate::{Flash, Store, recover};
use keepfs_flash::checkpoint::Wish;

/// What the last checkpoint is.
const CLOSED: Wish = Wish {
    clean: true,
    new_log: None,
};

impl Flash {
    /// See [`Store::rest`]. Whether it rests from now on.
    pub(crate) fn rest(&self, store: &Store) -> Result<bool, Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        if store.ground.rests() {
            return Ok(false);
        }
        store.ground.alive()?;
        if store.ground.is_read_only() {
            return Ok(false);
        }
        store.ground.set_resting(true);
        match self.checkpoint_with(store, &mut keeper, CLOSED) {
            Ok(()) => Ok(true),
            Err(error) => {
                store.ground.set_resting(false);
                Err(error)
            }
        }
    }

    /// See [`Store::begin_writing`]. Whether it is written for the first time.
    pub(crate) fn begin_writing(&self, store: &Store) -> Result<bool, Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        if !store.ground.is_read_only() {
            return Ok(false);
        }
        store.ground.alive()?;
        if store.ground.rests() {
            store.ground.set_resting(false);
            return Ok(false);
        }
        recover::begin_writing(self, store, &mut keeper)?;
        drop(keeper);
        store.ground.begin_writing();
        Ok(true)
    }

    /// See [`Store::settle`].
    pub(crate) fn settle(&self, store: &Store) -> Result<(), Error> {
        store.ground.alive()?;
        if store.ground.is_read_only() || self.is_closed(&store.frames) {
            return Ok(());
        }
        self.checkpoint_as(store, CLOSED)
    }
}
