//! A transaction as the auditor sees it (SPEC section 17): the changes from its undo records, which the door wrote, and
//! what was told besides.

use super::{Touched, Txn};
use crate::arena::FrameNo;
use crate::error::{Error, Stop};
use crate::planted::{self, Logic};
use crate::undo::Undo;
use core::cell::Cell;
use keepfs_audit::digest::{Block, Change, Equations, Fate, Nature, Transaction};
use keepfs_format::Kind;
use keepfs_format::plog::Record;
use smallvec::SmallVec;
use std::sync::Arc;

/// Changes that are listed without asking for memory.
const FEW: usize = 24;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What the auditor is shown.
struct Seen<'t, 's> {
    txn: &'t Txn<'s>,
    changes: SmallVec<[Change<'t>; FEW]>,
}

impl Txn<'_> {
    /// The audit equations must balance before a transaction may commit. Errors: [`Error::Unbalanced`] (S-17.1); `Logic` if
    /// the door changed a frame that the transaction does not hold.
    pub(super) fn audit(&self) -> Result<(), Stop> {
        let among = match self.logged {
            true => Equations::ALL,
            false => Equations::OF_CHECKPOINTS,
        };
        let Some(auditor) = self.store.audits.auditor() else {
            return Ok(());
        };
        let mut bytes = SPARE.take();
        let found = self.seen(&mut bytes).map(|seen| auditor.judge(&seen, among));
        SPARE.set(bytes);
        let found = found?;
        if found.is_empty() {
            return Ok(());
        }
        let found = Arc::new(found);
        self.store.audits.found(&found);
        self.store.tell_unbalanced(&found.clone().into());
        Err(Error::Unbalanced(found.into()).into())
    }

    /// Errors: `Logic`, see [`Txn::audit`].
    fn seen<'t>(&'t self, bytes: &'t mut Vec<u8>) -> Result<Seen<'t, 't>, Error> {
        let mut changes = SmallVec::new();
        let mut places = Places::of(self);
        for told in self.undo.forwards(bytes) {
            let block = places.find(told.frame).ok_or_else(|| {
                let what = format!(
                    "frame {} was changed by a transaction that does not hold it",
                    told.frame
                );
                tracing::error!("a logic bug: {what}");
                Error::Logic(what)
            })?;
            let unseen = match told.undo {
                Undo::Bits => planted::has(Logic::BitsUnseen),
                Undo::Add64 | Undo::Add16 => planted::has(Logic::CountersUnseen),
                Undo::Bytes => self.touched[block].r.kind == Kind::DirLeaf && planted::has(Logic::LeavesUnseen),
            };
            if unseen {
                continue;
            }
            changes.push(Change {
                block,
                offset: told.offset,
                nature: match told.undo {
                    Undo::Bytes => Nature::Bytes,
                    Undo::Bits => Nature::Bits,
                    Undo::Add64 | Undo::Add16 => Nature::Counter,
                },
                old: told.old,
                new: told.new,
            });
        }
        Ok(Seen { txn: self, changes })
    }
}

/// Finds the metablock of a frame among those that a transaction touched.
struct Places<'t, 's> {
    touched: &'t [Touched<'s>],
    /// Of many: their frames, sorted, with their places.
    sorted: Vec<(FrameNo, usize)>,
    /// The one found last.
    last: usize,
}

impl<'t, 's> Places<'t, 's> {
    /// Touched metablocks from which a sorted list of their frames is worth making.
    const MANY: usize = 12;

    fn of(txn: &'t Txn<'s>) -> Self {
        let touched = &txn.touched[..];
        let mut sorted = Vec::new();
        if touched.len() > Self::MANY {
            sorted.extend(touched.iter().enumerate().map(|(i, t)| (t.pin.frame, i)));
            sorted.sort_unstable();
        }
        Places {
            touched,
            sorted,
            last: 0,
        }
    }

    fn find(&mut self, frame: FrameNo) -> Option<usize> {
        if self.touched.get(self.last).is_some_and(|t| t.pin.frame == frame) {
            return Some(self.last);
        }
        self.last = match self.sorted.is_empty() {
            true => self.touched.iter().position(|t| t.pin.frame == frame)?,
            false => {
                let at = self.sorted.binary_search_by_key(&frame, |(f, _)| *f).ok()?;
                self.sorted[at].1
            }
        };
        Some(self.last)
    }
}

impl Transaction for Seen<'_, '_> {
    #[inline]
    fn count(&self) -> usize {
        self.txn.touched.len()
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        let t = &self.txn.touched[index];
        Block {
            id: t.r.id,
            kind: t.r.kind,
            owner: t.r.owner,
            fate: match t.r.kind {
                // What it held was told before it dies.
                Kind::Inodes => Fate::Stays,
                _ => t.fate,
            },
        }
    }

    fn changes(&self) -> &[Change<'_>] {
        &self.changes
    }

    fn load(&self, block: usize, offset: usize, buf: &mut [u8]) {
        let frame = self.txn.touched[block].pin.frame;
        self.txn.store.arena.load(frame, offset, buf);
    }

    fn ranges(&self, block: usize) -> &[(u16, u16)] {
        &self.txn.touched[block].ranges
    }

    fn records(&self) -> &[Record] {
        &self.txn.records
    }

    fn operations(&self) -> Option<&[u8]> {
        self.txn.draft.as_ref().map(crate::oplog::Draft::operations)
    }

    fn pages_used(&self) -> u64 {
        self.txn.pages_used
    }
}

#[cfg(test)]
mod tests;
