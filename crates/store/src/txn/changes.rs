//! What a transaction changed, read back from its undo records (S-13.3) once for who judges it and who logs it.

use super::{Touched, Txn};
use crate::error::{Error, Stop};
use keepfs_digest::{Change, Nature};
use keepfs_flash::redo;
use keepfs_pool::events::Done;
use keepfs_vault::arena::FrameNo;
use keepfs_vault::undo::Undo;
use smallvec::SmallVec;

/// Changes that are listed without asking for memory.
const FEW: usize = 24;

thread_local! {
    /// Memory for undo records that are read back.
    static UNDONE: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

/// The changes of a transaction in their order; `block` is the place among the metablocks touched.
pub(super) type Changes<'b> = SmallVec<[Change<'b>; FEW]>;

impl<'s> Txn<'s> {
    /// The audit equations must balance (SPEC section 17); then the redo is encoded, if it leaves any. Errors:
    /// [`Error::Unbalanced`] (S-17.1); `Damaged` if an undo record does not read back (S-13.10); `Records` (S-13.9); `Logic` if the door changed a
    /// frame that the transaction does not hold; `Pressure`.
    pub(super) fn judge_and_encode(&self) -> Result<Option<redo::Encoded<'s>>, Stop> {
        let mut bytes = UNDONE.take();
        let result = self.judge_and_encode_in(self.undo.copied(&mut bytes));
        UNDONE.set(bytes);
        result
    }

    /// The same from a copy of the records.
    fn judge_and_encode_in(&self, copied: &[u8]) -> Result<Option<redo::Encoded<'s>>, Stop> {
        let mut changes = Changes::new();
        self.changes(copied, &mut changes)?;
        self.check_told()?;
        self.audit(&changes)?;
        #[cfg(test)]
        tests::between(self, copied);
        let encoded = self.logged.then(|| self.encode_redo(&changes)).transpose()?;
        // What was judged and encoded is what the door recorded.
        match self.undo.forwards(copied).position(|told| told.is_none()) {
            Some(number) => Err(self.tell_unread(number).into()),
            None => Ok(encoded),
        }
    }

    /// Errors: `Damaged`, `Logic`, see [`Txn::judge_and_encode`].
    fn changes<'b>(&self, copied: &'b [u8], changes: &mut Changes<'b>) -> Result<(), Error> {
        let mut places = Places::of(self);
        for told in self.undo.forwards(copied) {
            let told = told.ok_or_else(|| self.tell_unread(changes.len()))?;
            let block = places.find(told.frame).ok_or_else(|| not_held(told.frame))?;
            changes.push(Change {
                block,
                offset: told.offset,
                nature: match told.undo {
                    Undo::Bytes => Nature::Bytes,
                    Undo::Bits => Nature::Bits,
                },
                old: told.old,
                new: told.new,
            });
        }
        Ok(())
    }

    /// Undo record `number` does not read back: the error of the transaction, which is rolled back.
    #[cold]
    fn tell_unread(&self, number: usize) -> Error {
        let what = format!("record {number} of a transaction was changed by something else before it was committed");
        self.store
            .ground
            .events
            .tell_undo(&self.undo, Done::RolledBack, 0, what.clone());
        Error::Damaged(format!("undo {what}; do it again"))
    }
}

#[cold]
pub(super) fn not_held(frame: FrameNo) -> Error {
    let what = format!("frame {frame} was changed by a transaction that does not hold it");
    tracing::error!("a logic bug: {what}");
    Error::Logic(what)
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

#[cfg(test)]
mod tests;
