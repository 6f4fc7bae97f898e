//! The redo of a transaction, from its undo records (S-15.16, decision 0541).

use super::Txn;
use crate::error::Stop;
use crate::redo;
use crate::undo::{Told, Undo};
use smallvec::SmallVec;

thread_local! {
    /// Memory for undo records that are read back.
    static UNDONE: std::cell::Cell<Vec<u8>> = const { std::cell::Cell::new(Vec::new()) };
}

impl<'s> Txn<'s> {
    /// The records with, last, the final bytes of every range of this transaction, as its undo records tell them (S-13.3).
    pub(super) fn encode_redo(&mut self) -> Result<redo::Encoded<'s>, Stop> {
        let mut draft = redo::Draft::new();
        self.records.iter().for_each(|record| draft.push(record));
        // Not from the frames: redo is a witness against them (L-2).
        let mut bytes = UNDONE.take();
        {
            let put = self.undo.forwards(&mut bytes).filter(|told| told.undo == Undo::Bytes);
            let put: SmallVec<[Told<'_>; 16]> = put.collect();
            let changed = self.touched.iter().filter(|t| !t.ranges.is_empty());
            for t in changed {
                draft.push_update(t.r.id, t.generation, &t.ranges, |from, bytes| {
                    let of_frame = put.iter().filter(|told| told.frame == t.pin.frame);
                    of_frame.for_each(|told| told.show(usize::from(from), bytes));
                });
            }
        }
        UNDONE.set(bytes);
        draft.seal(&self.store.segment)
    }
}
