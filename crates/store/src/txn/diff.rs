//! Which bytes of a metablock a change of a structure touches: eight at a time, since most are equal.

use super::{Meaning, Ranges, Ref, Txn};
use crate::error::Stop;
use crate::planted::{self, Logic};
use crate::update;
use core::ops::Range;
use keepfs_format::inode::Inode;
use smallvec::SmallVec;

/// A gap of so many equal bytes is told apart in the log: another range costs 4 bytes of head there.
const GAP: usize = 8;

/// Where an inode has its mode: [`Logic::PastTheDoor`] is about changes that begin there.
const MODE: Range<usize> = core::mem::offset_of!(Inode, mode)..core::mem::offset_of!(Inode, uid);

/// A gap of so many equal bytes is stored again with what lies around it: one change instead of two.
const SPAN_GAP: usize = 128;

/// The first range at or behind `at` in which `old` and `new`, of one length, differ, gaps of less than [`GAP`] included.
fn next(old: &[u8], new: &[u8], at: usize) -> Option<Range<usize>> {
    let start = first_difference(old, new, at)?;
    let mut end = start + 1;
    while let Some(last) = last_difference(old, new, end..(end + GAP).min(old.len())) {
        end = last + 1;
    }
    Some(start..end)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

fn first_difference(old: &[u8], new: &[u8], at: usize) -> Option<usize> {
    let (old_words, old_rest) = old.get(at..)?.as_chunks();
    let (new_words, new_rest) = new.get(at..)?.as_chunks();
    let pairs = || old_words.iter().zip(new_words);
    if let Some(i) = pairs().position(|(a, b)| a != b) {
        let differ = u64::from_le_bytes(old_words[i]) ^ u64::from_le_bytes(new_words[i]);
        return Some(at + 8 * i + differ.trailing_zeros() as usize / 8);
    }
    let rest = old_rest.iter().zip(new_rest).position(|(a, b)| a != b)?;
    Some(at + 8 * old_words.len() + rest)
}

/// The last difference of at most eight bytes.
fn last_difference(old: &[u8], new: &[u8], window: Range<usize>) -> Option<usize> {
    if window.len() == 8
        && let (Some(a), Some(b)) = (word(old, window.start), word(new, window.start))
    {
        let differ = a ^ b;
        return (differ != 0).then(|| window.start + 7 - differ.leading_zeros() as usize / 8);
    }
    window.rev().find(|i| old[*i] != new[*i])
}

impl Txn<'_> {
    /// Stores the bytes of `new` that differ from `old`, as a few ranges. `old` was read in this transaction.
    pub fn put_diff(&mut self, r: Ref, offset: usize, old: &[u8], new: &[u8], meaning: Meaning) -> Result<(), Stop> {
        let len = old.len().min(new.len());
        let (old, new) = (&old[..len], &new[..len]);
        let mut ahead = next(old, new, 0);
        while let Some(first) = ahead {
            // The door takes a whole span at once; the log gets only the ranges in it that differ.
            let mut ranges: SmallVec<[Range<usize>; 6]> = smallvec::smallvec![first.clone()];
            let mut end = first.end;
            ahead = next(old, new, end);
            while let Some(near) = ahead.clone().filter(|near| near.start - end <= SPAN_GAP) {
                end = near.end;
                ahead = next(old, new, end);
                ranges.push(near);
            }
            self.put_span((r, meaning), offset, first.start..end, new, &ranges)?;
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
        if planted::has(Logic::PastTheDoor) && meaning == Meaning::Inode && MODE.contains(&span.start) {
            self.store.arena.copy(frame, offset + span.start, &new[span]);
            return Ok(());
        }
        update::put(
            &self.store.arena,
            &mut self.undo,
            (group, frame),
            offset + span.start,
            &new[span],
        )?;
        let told = match planted::has(Logic::RangeOmitted) {
            true => &ranges[..1],
            false => ranges,
        };
        told.iter()
            .for_each(|range| self.mark(i, offset + range.start, range.len()));
        Ok(())
    }
}

/// Inserts `from..to` into sorted, disjoint ranges, merging those that touch.
pub(crate) fn insert_range(ranges: &mut Ranges, from: u16, to: u16) {
    let first = ranges.partition_point(|(_, end)| *end < from);
    let last = ranges.partition_point(|(start, _)| *start <= to);
    if first == last {
        ranges.insert(first, (from, to));
        return;
    }
    let merged = (from.min(ranges[first].0), to.max(ranges[last - 1].1));
    ranges[first] = merged;
    ranges.drain(first + 1..last);
}

#[cfg(test)]
mod tests;
