//! The redo of a transaction, from its undo records (S-15.16, decision 0541).

use super::Txn;
use crate::error::Stop;
use crate::redo;
use keepfs_audit::digest::{Change, Nature};
use smallvec::SmallVec;

impl<'s> Txn<'s> {
    /// The records with, last, the final bytes of every range of this transaction, as its undo records tell them (S-13.3).
    pub(super) fn encode_redo(&self, changes: &[Change<'_>]) -> Result<redo::Encoded<'s>, Stop> {
        let mut draft = redo::Draft::new();
        self.records.iter().for_each(|record| draft.push(record));
        // Not from the frames: redo is a witness against them (L-2).
        let changed = self.touched.iter().enumerate().filter(|(_, t)| !t.ranges.is_empty());
        for (block, t) in changed {
            let put = changes.iter().filter(|c| c.block == block && c.nature == Nature::Bytes);
            let put: SmallVec<[&Change<'_>; 8]> = put.collect();
            draft.push_update(t.r.id, t.generation, &t.ranges, |from, bytes| {
                put.iter().for_each(|change| show(change, usize::from(from), bytes));
            });
        }
        draft.seal(&self.store.segment)
    }
}

/// Stores what a change has of the bytes from offset `from` on.
fn show(change: &Change<'_>, from: usize, bytes: &mut [u8]) {
    let start = change.offset.max(from);
    let end = (change.offset + change.new.len()).min(from + bytes.len());
    if start < end {
        bytes[start - from..end - from].copy_from_slice(&change.new[start - change.offset..end - change.offset]);
    }
}
