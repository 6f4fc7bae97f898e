//! Which bytes of a metablock a change of a structure touches: eight at a time, since most are equal.

use super::{Meaning, Txn};
use crate::error::Stop;
use core::ops::Range;
#[cfg(feature = "planted")]
use keepfs_format::inode::Inode;
use keepfs_frames::Ref;
use keepfs_vault::planted::{self, Logic};
use smallvec::SmallVec;

/// A gap of so many equal bytes is told apart in the log: another range costs 4 bytes of head there.
const GAP: usize = 8;

/// Where an inode has its mode: [`Logic::PastTheDoor`] is about changes that begin there.
#[cfg(feature = "planted")]
const MODE: Range<usize> = core::mem::offset_of!(Inode, mode)..core::mem::offset_of!(Inode, uid);

/// A gap of so many equal bytes is stored again with what lies around it: one change instead of two.
const SPAN_GAP: usize = 128;

/// The ranges in which `old` and `new`, of one length, differ, ascending, gaps of less than [`GAP`] included.
fn differences(old: &[u8], new: &[u8]) -> SmallVec<[Range<usize>; 12]> {
    let mut ranges: SmallVec<[Range<usize>; 12]> = SmallVec::new();
    let mut add = |at: usize, old: &[u8; 8], new: &[u8; 8]| {
        let differ = u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
        if differ == 0 {
            return;
        }
        // What differs in a word is one range: no gap in it is as long as it.
        let start = at + differ.trailing_zeros() as usize / 8;
        let end = at + 8 - differ.leading_zeros() as usize / 8;
        match ranges.last_mut() {
            Some(last) if start - last.end < GAP => last.end = end,
            _ => ranges.push(start..end),
        }
    };
    let ((old, old_rest), (new, new_rest)) = (old.as_chunks(), new.as_chunks());
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        add(8 * i, old, new);
    }
    let padded = |rest: &[u8]| core::array::from_fn(|i| rest.get(i).copied().unwrap_or(0));
    add(8 * old.len(), &padded(old_rest), &padded(new_rest));
    ranges
}

impl Txn<'_> {
    /// Stores the bytes of `new` that differ from `old`, as a few ranges. `old` was read in this transaction.
    pub fn put_diff(&mut self, r: Ref, offset: usize, old: &[u8], new: &[u8], meaning: Meaning) -> Result<(), Stop> {
        let len = old.len().min(new.len());
        let (old, new) = (&old[..len], &new[..len]);
        let ranges = differences(old, new);
        // The door takes a whole span at once; the log gets only the ranges in it that differ.
        for near in ranges.chunk_by(|one, next| next.start - one.end <= SPAN_GAP) {
            if let (Some(first), Some(last)) = (near.first(), near.last()) {
                self.put_span((r, meaning), offset, first.start..last.end, new, near)?;
            }
        }
        Ok(())
    }

    /// Stores the bytes `span` of `new`, which belong at `offset`; only `ranges` of them differ.
    fn put_span(
        &mut self,
        (r, meaning): (Ref, Meaning),
        offset: usize,
        span: Range<usize>,
        new: &[u8],
        ranges: &[Range<usize>],
    ) -> Result<(), Stop> {
        let (i, frame) = self.about_to_put(r, offset + span.start, span.len())?;
        let group = self.caller(r, meaning)?;
        #[cfg(feature = "planted")]
        if planted::has(Logic::PastTheDoor) && meaning == Meaning::Inode && MODE.contains(&span.start) {
            self.store.frames.arena.stray(frame, offset + span.start, &new[span]);
            return Ok(());
        }
        self.put_bytes(i, (group, frame), offset + span.start, &new[span])?;
        let told = match planted::has(Logic::RangeOmitted) {
            true => &ranges[..1],
            false => ranges,
        };
        told.iter()
            .for_each(|range| self.mark(i, offset + range.start, range.len()));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
