//! Settings of a pool that lives are changed by a checkpoint (S-2.9).

use super::{Keeper, Wish};
use crate::error::Error;
use crate::pool::{Pool, Settings};
use crate::{Flash, Store};
use keepfs_vault::planted::{self, Bug};

impl Flash {
    /// See [`Store::set`].
    pub(crate) fn set(&self, store: &Store, settings: &Settings) -> Result<bool, Error> {
        store.alive()?;
        let mut keeper = self.checkpoints.keeper.lock();
        store.life.unless_read_only()?;
        let before = self.superblock_in_force(store, &mut keeper)?;
        let mut after = before;
        settings.store(&mut after)?;
        if after == before {
            return Ok(false);
        }
        // The next checkpoint has what stands here; nobody else makes one meanwhile.
        keeper.superblock = Keeper::of(&after);
        let done = self.checkpoint_with(store, &mut keeper, Wish::default());
        match done {
            Ok(()) => *self.checkpoints.in_force.lock() = Pool::of(&after),
            Err(_) => keeper.superblock = Keeper::of(&before),
        }
        drop(keeper);
        store.keep_history();
        done.map(|()| true)
    }

    /// See [`Store::pool_in_force`].
    pub(crate) fn pool_in_force(&self) -> Pool {
        let _waits = planted::is(Bug::SettingsWait).then(|| self.checkpoints.keeper.lock());
        self.checkpoints.in_force.lock().clone()
    }
}

#[cfg(test)]
mod tests;
