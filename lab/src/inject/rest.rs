//! Faults at rest: one copy of a metablock, or both, on the device.

use super::Dice;
use super::fault::{Class, damage};
use super::lines::{Change, Served};
use super::subject::{Subject, failed};
use keepfs_format::PAGE;
use keepfs_media::{Class as Traffic, Device, PageNo};
use keepfs_store::{DeviceFault, DeviceOp, RestPlace};

/// Bytes that a device writes as one.
const SECTOR: usize = 512;

/// A fault at rest of one of the subject's own metablocks, found by a reader and a scrub; behind it the next checkpoint has
/// written it anew. What was changed, and what a reader got. `None`: nothing was changed.
pub fn inject(
    subject: &mut Subject,
    class: Class,
    at: usize,
    dice: &mut Dice,
) -> Result<Option<(Change, Served)>, String> {
    if !subject.blocks[at].is_ours() {
        return Ok(None);
    }
    let pages = pages(subject, at)?;
    let changed = match class {
        Class::RestMedium => unreadable(subject, at)?,
        Class::RestTorn => torn(subject, at, dice)?,
        Class::RestBoth => return both(subject, at, pages, dice),
        _ => {
            let other = (at + 1) % subject.blocks.len();
            subject.look(other)?;
            let right = *subject.blocks[at].right;
            let mut bytes = right;
            damage(class, &mut bytes, &subject.blocks[other].right, dice);
            write(subject, *dice.one_of(&pages), &bytes)?;
            Some(Change::between(&right, &bytes))
        }
    };
    let Some(change) = changed.filter(|change| class == Class::RestMedium || change.bits > 0) else {
        return Ok(None);
    };
    if dice.once_in(2) {
        subject.store.drop_clean_frames();
        subject.served(at);
    }
    scrub(subject, at)?;
    let served = subject.served(at);
    let id = subject.blocks[at].r.id;
    subject.store.checkpoint().map_err(failed)?;
    match subject.store.check_copies(id).map_err(failed)?.bad {
        0 => Ok(Some((change, served))),
        bad => Err(format!("a checkpoint left {bad} bad copies of {id}")),
    }
}

/// Pages of its copies, with nothing that waits for a checkpoint.
fn pages(subject: &mut Subject, at: usize) -> Result<[u64; 2], String> {
    let id = subject.blocks[at].r.id;
    let place = subject.store.structure(id, true).map_err(failed)?;
    match place.pages.contains(&0) {
        true => Err(format!("{id} has no two copies")),
        false => Ok(place.pages),
    }
}

fn read(subject: &Subject, page: u64) -> Result<[u8; PAGE], String> {
    let mut bytes = [0; PAGE];
    subject.device.read(PageNo(page), &mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn write(subject: &Subject, page: u64, bytes: &[u8; PAGE]) -> Result<(), String> {
    let written = subject.device.write(PageNo(page), bytes, Traffic::Metadata);
    written.map_err(failed)
}

/// A scrub looks at the copies of the metablock.
fn scrub(subject: &Subject, at: usize) -> Result<(), String> {
    let id = subject.blocks[at].r.id;
    let place = RestPlace {
        space: id.space().map_or(0, |space| space as u8),
        index: id.index(),
    };
    subject.store.scrub_rest(place).map(drop).map_err(failed)
}

/// The device fails one read.
fn unreadable(subject: &mut Subject, at: usize) -> Result<Option<Change>, String> {
    subject.store.drop_clean_frames();
    let number = subject.store.inject_device(DeviceOp::Read, DeviceFault::Eio, 1);
    let number = number.map_err(failed)?;
    subject.served(at);
    let unused = subject.store.cancel_injections(Some(number));
    Ok((unused == 0).then(Change::default))
}

/// Of the last write of a copy some sectors came to the device; before it there stood what the metablock held before.
fn torn(subject: &mut Subject, at: usize, dice: &mut Dice) -> Result<Option<Change>, String> {
    let before = *subject.blocks[at].right;
    subject.put(at, 4, dice)?;
    let right = *subject.blocks[at].right;
    let page = *dice.one_of(&pages(subject, at)?);
    let from = SECTOR * (1 + dice.below(PAGE / SECTOR - 1));
    let mut bytes = right;
    bytes[from..].copy_from_slice(&before[from..]);
    write(subject, page, &bytes)?;
    Ok(Some(Change::between(&right, &bytes)))
}

/// Both copies: an error of this metablock alone, until the device has it again.
fn both(
    subject: &mut Subject,
    at: usize,
    pages: [u64; 2],
    dice: &mut Dice,
) -> Result<Option<(Change, Served)>, String> {
    let right = *subject.blocks[at].right;
    let mut bytes = right;
    for page in pages {
        bytes = right;
        damage(Class::RestBoth, &mut bytes, &right, dice);
        write(subject, page, &bytes)?;
    }
    subject.store.drop_clean_frames();
    let served = subject.served(at);
    let another = (at + 1) % subject.blocks.len();
    let others = subject.served(another);
    if others == Served::Error || others == Served::Wrong && subject.blocks[another].is_ours() {
        return Err(format!(
            "{} is bad, and so is {}",
            subject.blocks[at].r.id, subject.blocks[another].r.id
        ));
    }
    pages.into_iter().try_for_each(|page| write(subject, page, &right))?;
    subject.store.drop_clean_frames();
    match (subject.served(at), read(subject, pages[0])? == right) {
        (Served::Right, true) => Ok(Some((Change::between(&right, &bytes), served))),
        other => Err(format!("{} did not come back: {other:?}", subject.blocks[at].r.id)),
    }
}
