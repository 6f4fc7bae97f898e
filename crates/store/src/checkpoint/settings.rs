//! Settings of a pool that lives are changed by a checkpoint (S-2.9).

use crate::error::Error;
use crate::{Flash, Store};
use keepfs_flash::checkpoint::{Keeper, Wish};
use keepfs_pool::{Pool, Settings};

impl Flash {
    /// See [`Store::set`].
    pub(crate) fn set(&self, store: &Store, settings: &Settings) -> Result<bool, Error> {
        store.ground.alive()?;
        let mut keeper = self.checkpoints.keeper.lock();
        store.ground.unless_read_only()?;
        let before = self.superblock_in_force(&store.frames, &mut keeper)?;
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
        store.ground.keep_history();
        done.map(|()| true)
    }
}

#[cfg(test)]
mod tests;
