//! What of a pool changes while nobody has it open: by a superblock alone (S-2.13).

use crate::error::Error;
use crate::mmp::claim::Why;
use crate::mmp::{Claimant, Who};
use crate::pool::{Pool, choose, may_write, superblock_bytes, whole_superblocks};
use crate::{history, mmp};
use keepfs_format::PoolId;
use keepfs_format::superblock::{CLEAN, INCOMPAT_GROWN, PAGES_MAX, Superblock, slots_of};
use keepfs_media::{Class, Device, PAGE, PageNo};
use std::sync::Arc;

/// Bytes of the id that stand in every metablock and stay (S-3.2).
const TAG: usize = 4;

/// Whoever has the device to itself.
fn anybody(who: &Who) -> Claimant<'_> {
    Claimant {
        who,
        background: true,
        read_only: false,
    }
}

/// Gives a pool that was closed an identity of its own: for a copy that shall be told from what it was copied from. The device
/// is this process's alone. Returns the identity.
///
/// Errors: `BadPool`, it was not closed, or must not be written; the device's.
pub fn renew_id(device: Arc<dyn Device>) -> Result<PoolId, Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
    let ((before, id), guard) = mmp::claimed(device.clone(), anybody(&Who::default()), Why::Open, |device| {
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

/// Gives a pool that was closed all pages of its device up to `pages` (S-2.15); what is on them does not matter. The device is this
/// process's alone. Returns how many pages it had.
///
/// Errors: `BadPool`, it has as many already, the device has not as many, or it was not closed; `Taken`, by another machine; the
/// device's.
pub fn grow(device: Arc<dyn Device>, pages: u64) -> Result<u64, Error> {
    let (had, guard) = mmp::claimed(device, anybody(&Who::default()), Why::Open, |device| {
        switch(&*device, |sb| {
            let (had, made) = (sb.pages.get(), may_grow(sb, device.pages(), pages)?);
            forget_whole(&*device, had)?;
            if Pool::of(sb).is_preallocated {
                device.provide(PageNo(had), pages - had)?;
            }
            sb.made_pages = made.into();
            sb.incompat = (sb.incompat.get() | INCOMPAT_GROWN).into();
            sb.pages = pages.into();
            Ok(had)
        })
    })?;
    if let Some(guard) = guard {
        guard.leave();
    }
    Ok(had)
}

/// What [`grow`] would say of it on a device of `has` pages: how many pages it has. Nothing is written or claimed.
///
/// Errors: `BadPool`.
pub fn growth(device: &dyn Device, has: u64, pages: u64) -> Result<u64, Error> {
    let sb = choose(device)?;
    may_write(&sb)?;
    may_grow(&sb, has, pages).map(|_| sb.pages.get())
}

/// The number of pages that places its slots, if it may have `pages` on a device of `has`. Errors: `BadPool`.
fn may_grow(sb: &Superblock, has: u64, pages: u64) -> Result<u32, Error> {
    let had = sb.pages.get();
    let refused = |why: String| Err(Error::BadPool(why));
    if pages <= had {
        return refused(format!(
            "it has {} KiB already, {} were asked for, and a pool does not shrink",
            had * 4,
            pages * 4
        ));
    }
    if pages > PAGES_MAX {
        return refused(format!("no pool can have more than {} KiB", PAGES_MAX * 4));
    }
    if pages > has {
        return refused(format!("it cannot have {} KiB, its device has {}", pages * 4, has * 4));
    }
    match u32::try_from(sb.slots_by()) {
        Ok(made) => Ok(made),
        Err(_) => refused("it was made with 16 TiB or more, and such a pool does not grow".into()),
    }
}

/// Zeroes the superblocks of a pool that had the whole device, from page `from` on, where a smaller one leaves what stands there:
/// with page 0 gone they would be taken for its own (S-2.1). Nothing else is changed (S-2.16).
///
/// Errors: the device's.
pub fn forget_whole(device: &dyn Device, from: u64) -> Result<(), Error> {
    let pages = device.pages();
    for page in whole_superblocks(device)
        .into_iter()
        .filter(|page| (from..pages).contains(page))
    {
        device.write(PageNo(page), &[0; PAGE], Class::Superblock)?;
    }
    Ok(device.flush()?)
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
        let page = PageNo(sb.slot_page(slot));
        device.write(page, &bytes[..], Class::Superblock)?;
        device.flush()?;
    }
    Ok(changed)
}
