//! The cursor of the ring, as it lies in the segment (S-14.1).

use crate::segment::{RING, Segment, Word};

/// Bits of an offset, which counts eight bytes.
const OFFSET: u32 = 20;
/// Bits of the number.
const NUMBER: u32 = 64 - 2 * OFFSET;
const _: () = assert!(RING == 8 << OFFSET);

/// Which entries are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    /// Offset of the first.
    pub start: usize,
    /// Offset behind the last.
    pub end: usize,
    /// Low bits of the number of the last committed transaction; layout 2 does not tell.
    low: Option<u64>,
}

impl Cursor {
    /// The word for a ring; `last` is the last committed transaction.
    pub fn word(start: usize, end: usize, last: u64) -> u64 {
        (start / 8) as u64 | ((end / 8) as u64) << OFFSET | last << (2 * OFFSET)
    }

    /// What a segment has. `None`: nothing that is a cursor.
    pub fn of(segment: &Segment) -> Option<Cursor> {
        let word = segment.word(Word::Cursor)?;
        if segment.is_former() {
            let [start, end] = [word as u32 as usize, (word >> 32) as usize];
            let is_possible = [start, end].iter().all(|at| *at < RING && at.is_multiple_of(8));
            return is_possible.then_some(Cursor { start, end, low: None });
        }
        let offset = |bits: u64| (bits & ((1 << OFFSET) - 1)) as usize * 8;
        Some(Cursor {
            start: offset(word),
            end: offset(word >> OFFSET),
            low: Some(word >> (2 * OFFSET)),
        })
    }

    /// The last committed transaction, which is not before `least`, if it is told.
    pub fn last(&self, least: u64) -> Option<u64> {
        let beyond = self.low?.wrapping_sub(least) & ((1 << NUMBER) - 1);
        Some(least.saturating_add(beyond))
    }

    /// Bytes of the entries.
    pub fn bytes(&self) -> usize {
        (self.end + RING - self.start) % RING
    }
}
