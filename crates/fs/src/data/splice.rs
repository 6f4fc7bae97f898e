//! Changes of several pages of a file in one transaction, so that a crash leaves all of them or none (promise C-1).

use super::page::Under;
use super::place::Placed;
use super::{PAGE_BYTES, free_pages, note_entries, note_holes};
use crate::Volume;
use crate::blockmap::{self, Budget};
use crate::errors::{Result, Step, refuse};
use crate::inode::Held;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::Inode;
use keepfs_format::plog::Run;
use keepfs_store::Txn;
use keepfs_store::planted::{self, Logic};
use keepfs_vfs::Errno;
use std::ops::Range;

/// Pages of a hole above which only the staged ones among them are told.
const TOLD_WHOLE: u64 = 1 << 30;

/// One part of a change, prepared outside the transaction.
pub(crate) enum Act<'a> {
    /// Bytes of one page are staged.
    Stage {
        index: u64,
        at: usize,
        bytes: &'a [u8],
        under: Option<Under>,
    },
    /// Part of one page becomes zeros.
    Zero {
        index: u64,
        at: usize,
        len: usize,
        under: Option<Under>,
    },
    /// Whole pages become holes.
    Holes { first: u64, count: u64 },
    /// Pages that are on the device are named.
    Place(Placed<'a>),
    /// Pages of another file are referenced too; what is not written there becomes a hole.
    Share { first: u64, entries: Vec<PageEntry> },
}

/// Does all parts; `false` if holes are left to be made (see [`super::hole`]). The size is set before.
/// Errors: `EMLINK` if a page has too many references.
pub(crate) fn splice(txn: &mut Txn<'_>, file: &mut Held, acts: &[Act<'_>]) -> Step<bool> {
    let (ino, version) = (file.ino, file.version());
    let mut done = true;
    for act in acts {
        match act {
            Act::Stage {
                index,
                at,
                bytes,
                under,
            } => {
                txn.stage(ino, *index, version, under.as_ref().map(Under::base), *at, bytes)?;
            }
            Act::Zero { index, at, len, under } => {
                txn.stage_zero(ino, *index, version, under.as_ref().map(Under::base), *at, *len)?;
            }
            Act::Holes { first, count } => {
                tell_holes(txn, file, *first, *count);
                done &= make_holes(txn, file, *first, *count)?;
            }
            Act::Place(placed) => placed.name(txn, file)?,
            Act::Share { first, entries } => done &= share(txn, file, *first, entries)?,
        }
    }
    Ok(done)
}

/// The transaction that named them committed: reserved pages are taken.
pub(crate) fn keep(acts: Vec<Act<'_>>) {
    for act in acts {
        if let Act::Place(placed) = act {
            placed.keep();
        }
    }
}

/// Tells the log of holes, which voids the pages staged there (S-8.5). Of a long hole only those are told: it would be a
/// million records for one of 2^51 pages.
fn tell_holes(txn: &mut Txn<'_>, file: &Held, first: u64, count: u64) {
    if count <= TOLD_WHOLE {
        return note_holes(txn, file, first, count);
    }
    let staged = txn.staged_pages(file.ino, first..first.saturating_add(count));
    for run in staged.chunk_by(|a, b| a + 1 == *b) {
        note_holes(txn, file, run[0], run.len() as u64);
    }
}

/// Frees what is mapped in a range as far as one transaction may; `true` when nothing is.
pub(super) fn make_holes(txn: &mut Txn<'_>, file: &mut Held, first: u64, count: u64) -> Step<bool> {
    let mut freed = Vec::new();
    let done = blockmap::clear(txn, file, first, first + count, Budget::default(), &mut freed)?;
    free_pages(txn, file, &freed)?;
    Ok(done)
}

/// Points entries at another file's pages, one reference more each; `false` if holes are left to be made.
fn share(txn: &mut Txn<'_>, file: &mut Held, first: u64, entries: &[PageEntry]) -> Step<bool> {
    let version = file.version();
    let own = |e: &PageEntry| match blockmap::is_written(e) {
        true => PageEntry::new(e.page(), e.flags(), e.crc.get(), version),
        false => PageEntry::HOLE,
    };
    let new: Vec<PageEntry> = entries.iter().map(own).collect();
    if new.iter().all(PageEntry::is_hole) {
        note_holes(txn, file, first, new.len() as u64);
        return make_holes(txn, file, first, new.len() as u64);
    }
    let mut old = vec![PageEntry::HOLE; new.len()];
    blockmap::set(txn, file, first, &new, &mut old)?;
    for run in runs(&new) {
        if !planted::has(Logic::ShareUncounted) && !txn.share_pages(run)? {
            return refuse(Errno::EMLINK);
        }
    }
    for was in old.iter().filter(|e| blockmap::has_page(e)) {
        txn.free_page(was.page())?;
    }
    note_entries(txn, file, first, &new);
    Ok(true)
}

/// The device pages of entries as runs.
fn runs(entries: &[PageEntry]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for page in entries.iter().filter(|e| !e.is_hole()).map(PageEntry::page) {
        match runs.last_mut() {
            Some(run) if run.start + u64::from(run.count) == page => run.count += 1,
            _ => runs.push(Run { start: page, count: 1 }),
        }
    }
    runs
}

impl Volume {
    /// What makes `offset .. end` read as zeros: `holes` of its whole pages become holes (the others are zeros already), of
    /// the pages at its ends the bytes are zeroed.
    pub(super) fn hole_acts(
        &self,
        ino: u64,
        inode: &Inode,
        (offset, end): (u64, u64),
        holes: Range<u64>,
    ) -> Result<Vec<Act<'static>>> {
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let mut acts = Vec::new();
        if first > last {
            acts.extend(self.zero_act(ino, inode, offset, end)?);
        } else {
            acts.extend(self.zero_act(ino, inode, offset, first * PAGE_BYTES)?);
            acts.extend(self.zero_act(ino, inode, last * PAGE_BYTES, end)?);
        }
        if !holes.is_empty() {
            acts.push(Act::Holes {
                first: holes.start,
                count: holes.end - holes.start,
            });
        }
        Ok(acts)
    }

    /// Zeros over `from .. to`, which lie in one page; none if that reads as zeros already.
    pub(crate) fn zero_act(&self, ino: u64, inode: &Inode, from: u64, to: u64) -> Result<Option<Act<'static>>> {
        if from >= to {
            return Ok(None);
        }
        self.room_to_stage()?;
        let (index, at) = super::page::place(from);
        let under = self.under(ino, inode, index)?.filter(Under::is_written);
        if under.is_none() && !self.is_staged(ino, index) {
            return Ok(None);
        }
        let len = ((to - from) as usize).min(PAGE - at);
        Ok(Some(Act::Zero { index, at, len, under }))
    }
}
