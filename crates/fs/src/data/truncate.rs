//! Changing the size: one transaction cuts, further ones free what lies behind (S-5.6, S-5.7).

use super::page::{Under, place};
use super::write::leave_inline;
use super::{PAGE_BYTES, note_holes};
use crate::Volume;
use crate::blockmap::{self, Budget, Freed};
use crate::errors::{Result, Step};
use crate::inode::{Held, hide, unhide};
use keepfs_format::PAGE;
use keepfs_format::blockmap::LOST;
use keepfs_format::inode::{BODY, BODY_INLINE, BODY_NONE, Inode};
use keepfs_format::oplog::Action;
use keepfs_format::plog::Record;
use keepfs_store::Txn;
use keepfs_store::planted::{self, Logic};

/// A change of size, prepared outside the transaction.
pub(crate) struct Cut {
    size: u64,
    /// The written page that the new size cuts, if it is not staged.
    under: Option<Under>,
}

impl Volume {
    /// Prepares truncating or extending to `size`. Called with the lock of [`Volume::settled`] held.
    pub(crate) fn prepare_cut(&self, ino: u64, inode: &Inode, size: u64) -> Result<Cut> {
        if size > inode.size.get() {
            self.finish_cut(ino)?;
        }
        let inode = &self.without_hole(ino, *inode)?;
        let (index, at) = place(size);
        let cuts = size < inode.size.get() && at != 0;
        // A lost page stays lost: none of its bytes can be seen, so none has to be zeroed (S-7.6).
        let under = match cuts && !self.is_lost(ino, inode, index)? {
            true => {
                self.room_to_stage()?;
                self.under(ino, inode, index)?.filter(Under::is_written)
            }
            false => None,
        };
        Ok(Cut { size, under })
    }

    /// Whether what is staged of the page is lost, or the page, if nothing is.
    fn is_lost(&self, ino: u64, inode: &Inode, index: u64) -> Result<bool> {
        match self.store.is_staged_lost(ino, index) {
            Some(is_lost) => Ok(is_lost),
            None => Ok(self.entry_at(ino, inode, index)?.flags() == LOST),
        }
    }
}

impl Cut {
    /// Sets the size in a transaction; `true` if [`Volume::free_cut`] must follow.
    pub fn apply(&self, txn: &mut Txn<'_>, file: &mut Held) -> Step<bool> {
        let old = file.now.size.get();
        txn.op(file.ino, Action::Truncate { size: self.size })?;
        if file.now.body == BODY_INLINE {
            return self.apply_inline(txn, file).map(|()| false);
        }
        file.now.size.set(self.size);
        if self.size > old {
            return Ok(false);
        }
        txn.note(Record::Truncate {
            ino: file.ino,
            size: self.size,
        });
        if let Some(under) = &self.under {
            let (index, at) = place(self.size);
            txn.stage_zero(file.ino, index, file.version(), Some(under.base()), at, PAGE - at)?;
        }
        let done = free_behind(txn, file)?;
        if !done {
            hide(txn, file)?;
        }
        if self.size == 0 && file.now.body == BODY_NONE {
            txn.op(file.ino, Action::Inline {})?;
            file.now.body = BODY_INLINE;
        }
        Ok(!done)
    }

    fn apply_inline(&self, txn: &mut Txn<'_>, file: &mut Held) -> Step<()> {
        let old = file.now.size.get();
        if self.size > BODY as u64 {
            leave_inline(txn, file, true)?;
        } else if old == 0 && self.size > 0 {
            // Nothing was written: one hole (S-5.4).
            file.now.body = BODY_NONE;
        } else if self.size < old {
            file.now.body_area[self.size as usize..].fill(0);
        }
        file.now.size.set(self.size);
        Ok(())
    }
}

/// Frees page entries behind the size as far as one transaction may; `true` when none is left.
fn free_behind(txn: &mut Txn<'_>, file: &mut Held) -> Step<bool> {
    let from = file.now.size.get().div_ceil(PAGE_BYTES);
    let mut freed = Vec::new();
    let done = blockmap::clear(txn, file, from, u64::MAX, Budget::default(), &mut freed)?;
    free_pages(txn, file, &freed)?;
    Ok(done)
}

/// Frees the device pages of entries that became holes and tells the log.
pub(crate) fn free_pages(txn: &mut Txn<'_>, file: &Held, freed: &[Freed]) -> Step<()> {
    let mut left = freed;
    while let Some(last) = left.last() {
        // Descending: the run that ends the slice is its lowest.
        let run = left
            .iter()
            .rev()
            .enumerate()
            .take_while(|(i, f)| f.index == last.index + *i as u64)
            .count();
        note_holes(txn, file, last.index, run as u64);
        left = &left[..left.len() - run];
    }
    let kept = usize::from(planted::has(Logic::PageKept));
    for Freed { entry, .. } in freed.iter().rev().skip(kept) {
        if blockmap::has_page(entry) {
            txn.free_page(entry.page())?;
        }
    }
    Ok(())
}

/// One transaction of freeing what lies behind the size; the last one takes the inode off the hidden list.
pub(super) fn trim_step(txn: &mut Txn<'_>, mut file: Held) -> Step<bool> {
    let done = free_behind(txn, &mut file)?;
    if done && file.now.nlink.get() > 0 {
        unhide(txn, &file)?;
        if file.now.size.get() == 0 && file.now.body == BODY_NONE {
            txn.op(file.ino, Action::Inline {})?;
            file.now.body = BODY_INLINE;
        }
    }
    file.put(txn)?;
    Ok(done)
}
