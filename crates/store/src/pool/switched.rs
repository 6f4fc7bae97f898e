//! What of a pool changes while nobody has it open: by a superblock alone (S-2.13).

use super::{Pool, choose, may_write, superblock_bytes};
use crate::error::Error;
use crate::mmp::claim::Why;
use crate::{StoreOptions, history, mmp};
use keepfs_format::PoolId;
use keepfs_format::superblock::{CLEAN, Superblock, slot_page, slots_of};
use keepfs_media::{Class, Device, PageNo};
use std::sync::Arc;

/// Bytes of the id that stand in every metablock and stay (S-3.2).
const TAG: usize = 4;

/// Gives a pool that was closed an identity of its own: for a copy that shall be told from what it was copied from. The device
/// is this process's alone. Returns the identity.
///
/// Errors: `BadPool`, it was not closed, or must not be written; the device's.
pub fn renew_id(device: Arc<dyn Device>) -> Result<PoolId, Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
    let ((before, id), guard) = mmp::claimed(device.clone(), &StoreOptions::default(), Why::Open, |device| {
        switch(&*device, |sb| {
            let before = Pool::of(sb);
            let mut id = before.id;
            id.0[TAG..].copy_from_slice(&random[TAG..]);
            if let Some(run) = before.history {
                history::hand_over(&*device, run, before.id, id)?;
            }
            sb.pool = id.0;
            Ok((before, id))
        })
    })?;
    if let Some(guard) = guard {
        guard.leave();
    }
    if let Some(page) = before.mmp {
        mmp::rename(&*device, page, before.id, id)?;
    }
    Ok(id)
}

/// Writes the superblock that `change` makes of the one in force as the next one: its flush decides. The log of a pool that was
/// closed is empty, and says nothing of the next superblock either.
fn switch<T>(device: &dyn Device, change: impl FnOnce(&mut Superblock) -> Result<T, Error>) -> Result<T, Error> {
    let mut sb = choose(device)?;
    may_write(&sb)?;
    if sb.state.get() != CLEAN {
        return Err(Error::BadPool(
            "it was not closed; mount it and unmount it first".into(),
        ));
    }
    let changed = change(&mut sb)?;
    sb.generation = (sb.generation.get() + 1).into();
    let bytes = superblock_bytes(&sb);
    for slot in slots_of(sb.generation.get()) {
        let page = PageNo(slot_page(slot, sb.pages.get()));
        device.write(page, &bytes[..], Class::Superblock)?;
        device.flush()?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests;
