//! What multi-mount protection asks of an open pool; what it is: [`keepfs_pool::mmp`].

use crate::Store;
use crate::error::Error;
use keepfs_pool::Settings;
use keepfs_pool::mmp::claim::Why;
pub use keepfs_pool::mmp::{
    Claimant, Guard, Who, block, claim, claimed, overwritten, owner, tell_waits_by, wait_in_words,
};

/// From here on the pool shows in each interval of so many seconds that this machine has it, or with `None` does not. Returns
/// whether that is a change.
///
/// Errors: `ReadOnly`; `BadPool`, the pool has no block for it; another machine has it; those of the device and of a checkpoint.
pub(crate) fn set(store: &Store, interval_s: Option<u32>) -> Result<bool, Error> {
    store.ground.alive()?;
    store.ground.unless_read_only()?;
    let Some(guard) = &store.life.mmp else {
        return match interval_s {
            None => Ok(false),
            Some(_) => Err(Error::BadPool(
                "it was made without a block for multi-mount protection; make a new one with `keepfs create` and copy the files"
                    .into(),
            )),
        };
    };
    let is_new = guard.interval_s() != interval_s;
    // The block is on whenever the superblock is: where it can be read, it counts.
    match interval_s {
        Some(interval_s) => {
            if is_new {
                guard.claim(Why::Protect(interval_s))?;
            }
            set_is_on(store, true)?;
        }
        None => {
            set_is_on(store, false)?;
            if is_new {
                guard.end_protection()?;
            }
        }
    }
    Ok(is_new)
}

fn set_is_on(store: &Store, is_on: bool) -> Result<(), Error> {
    let settings = Settings {
        mmp_is_on: Some(is_on),
        ..Settings::default()
    };
    store.home.set(store, &settings).map(drop)
}

/// A pool that was protected before superblocks said so says so from here on. Errors: those of a checkpoint.
pub(crate) fn note(store: &Store) -> Result<(), Error> {
    match store.mmp().is_some() && !store.ground.is_read_only() && !store.ground.pool.mmp_is_on {
        true => set_is_on(store, true),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
