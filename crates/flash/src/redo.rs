//! What committed transactions changed and the log does not have durably yet (S-14.2 to S-14.4).
//!
//! Groups are cut from here, not from frames: a transaction copies its final bytes while it still holds its locks,
//! so no uncommitted byte is ever logged. The entries lie in the ring of the session segment; the heap has an index
//! of them that can be rebuilt.
//!
//! Invariants:
//! R-1 Entries are written and published under the lock around [`Redo`], so their order is the order of commit.
//! R-2 An entry is complete before its transaction's state word is stored, and counts from that store on.
//! R-3 Entries taken for a group stay where they are until the group is durable, so a [`Span`] can be read without
//!     the lock.

mod compact;
mod cursor;
mod draft;
mod read;
mod spare;

pub use compact::{Group, Work, compact};
pub use draft::{Draft, Encoded, NoRoom};
pub use read::{ENTRIES_MAX, Rebuilt, has_beyond, rebuild};
pub use spare::{Piece, Spare};

use crate::segment::{RING, Segment, Word};
use cursor::Cursor;
use keepfs_format::plog::Record;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of an entry's head.
const HEAD: usize = 32;
/// Most bytes of an entry.
pub const ENTRY_MAX: usize = RING / 2;

/// One committed transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TxnRedo {
    /// Its number; numbers are consecutive in order of commit.
    pub seq: u64,
    /// Its records in the order they were made; updates last.
    pub records: Vec<Record>,
}

/// An entry of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    seq: u64,
    len: u32,
}

/// Something else changed an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedoDamage {
    /// Number of the transaction whose entry it is or should be.
    pub seq: u64,
}

/// Committed transactions in order.
pub struct Redo {
    segment: Arc<Segment>,
    /// Number of the last committed transaction.
    pub last: u64,
    /// Offset of the first entry kept.
    start: usize,
    /// Offset behind the last.
    end: usize,
    kept: VecDeque<Entry>,
    /// How many of them are in a group.
    taken: usize,
}

/// Consecutive entries, to be read without the lock.
#[derive(Debug, Default)]
pub struct Span {
    at: usize,
    entries: Vec<Entry>,
}

impl Span {
    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Redo {
    /// An empty ring; the last transaction committed is `last`.
    pub fn new(segment: Arc<Segment>, last: u64) -> Redo {
        let mut redo = Redo {
            segment,
            last: 0,
            start: 0,
            end: 0,
            kept: VecDeque::new(),
            taken: 0,
        };
        redo.start_at(last);
        redo
    }

    /// The ring is empty, and everything up to transaction `last` is on the device.
    pub fn start_at(&mut self, last: u64) {
        self.last = last;
        self.segment.set_word(Word::Last, last);
        self.segment.set_word(Word::Followed, last);
        self.store_cursor();
    }

    /// Writes the next transaction's entry; it counts from its slot's state word on. Returns its number.
    pub fn write(&self, encoded: &mut Encoded<'_>, slot: u16, generation: u32) -> u64 {
        let seq = self.last + 1;
        self.segment.ring_store(self.end, encoded.finish(seq, slot, generation));
        seq
    }

    /// The transaction that [`Redo::write`] was called for is committed.
    pub fn publish(&mut self, encoded: Encoded<'_>) {
        let len = encoded.keep();
        self.last += 1;
        self.count(Entry {
            seq: self.last,
            len: len as u32,
        });
    }

    fn count(&mut self, entry: Entry) {
        self.end = (self.end + entry.len as usize) % RING;
        self.kept.push_back(entry);
        self.store_cursor();
    }

    fn store_cursor(&self) {
        self.segment
            .set_word(Word::Cursor, Cursor::word(self.start, self.end, self.last));
    }

    /// Takes everything not yet in a group.
    pub fn take(&mut self) -> Span {
        let before: usize = self.kept.iter().take(self.taken).map(|e| e.len as usize).sum();
        let span = Span {
            at: (self.start + before) % RING,
            entries: self.kept.iter().skip(self.taken).copied().collect(),
        };
        self.taken = self.kept.len();
        span
    }

    /// Everything that is kept, in a group or not.
    pub fn kept(&self) -> Span {
        Span {
            at: self.start,
            entries: self.kept.iter().copied().collect(),
        }
    }

    /// The entries of all transactions after `seq`; `None` if one of them was given up.
    pub fn beyond(&self, seq: u64) -> Option<Span> {
        if self.kept.front().map_or(self.last, |first| first.seq - 1) > seq {
            return None;
        }
        let before = self.kept.iter().take_while(|e| e.seq <= seq);
        let (count, bytes) = before.fold((0, 0), |(count, bytes), e| (count + 1, bytes + e.len as usize));
        Some(Span {
            at: (self.start + bytes) % RING,
            entries: self.kept.iter().skip(count).copied().collect(),
        })
    }

    /// The log has everything up to transaction `seq`.
    pub fn taken_up_to(&mut self, seq: u64) {
        self.taken = self.kept.iter().take_while(|e| e.seq <= seq).count();
    }

    /// The last entries are not there for who reads the ring from here on; none is in a group. In the segment they are.
    pub fn leave_out(&mut self, count: usize) {
        for _ in 0..count {
            let Some(entry) = self.kept.pop_back() else { return };
            self.end = (self.end + RING - entry.len as usize) % RING;
            self.last = entry.seq - 1;
            self.segment.give_room(entry.len as usize);
        }
    }

    /// What was taken last goes into the next group instead.
    pub fn give_back(&mut self, span: Span) {
        self.taken -= span.entries.len();
    }

    /// Gives up the entries up to transaction `seq`: the device has them durably (S-14.4).
    pub fn release(&mut self, seq: u64) {
        let mut bytes = 0;
        let mut last = None;
        while let Some(entry) = self.kept.front().filter(|e| e.seq <= seq && self.taken > 0) {
            bytes += entry.len as usize;
            last = Some(entry.seq);
            self.kept.pop_front();
            self.taken -= 1;
        }
        let Some(last) = last else { return };
        self.start = (self.start + bytes) % RING;
        if self.kept.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        self.segment.set_word(Word::Last, last);
        self.store_cursor();
        self.segment.give_room(bytes);
    }
}

#[cfg(test)]
mod tests;
