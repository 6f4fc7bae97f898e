//! Memory in which groups are made, kept from one to the next: a group is 1 MiB as a rule (S-14.4), and to ask the system for
//! that each time, and to give it back, took half of the time of making one (decision 0667).

use super::compact::Work;
use crate::segment::RING;
use keepfs_vault::locks::Mutex;

/// Most bytes of a piece that is kept, a group with a quarter more: what longer groups have is given back (P-9).
const KEEP_MAX: usize = RING / 32 * 5;
/// Most records that are remembered in memory that is kept: those of a group as long as a piece, of 80 bytes each.
const RECORDS_MAX: usize = KEEP_MAX / 80;

/// What a piece of memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Records of transactions, and later the pages of the log in which they go out.
    Whole,
    /// What the records are compacted to, between the two.
    Payload,
}

/// A piece of each kind, with whatever bytes it was used for last, and what compacting remembers.
#[derive(Default)]
pub struct Spare {
    pieces: [Mutex<Vec<u8>>; 2],
    work: Mutex<Work>,
}

impl Spare {
    /// Takes a piece; it is empty if somebody has it.
    pub fn take(&self, piece: Piece) -> Vec<u8> {
        core::mem::take(&mut *self.pieces[piece as usize].lock())
    }

    /// Keeps a piece, cut to what is kept at most. It is not freed as a whole: the C library would take the length of the
    /// longest piece freed for the measure of how much free memory it keeps for itself, in each of its heaps (mallopt(3),
    /// `M_MMAP_THRESHOLD`).
    pub fn give(&self, piece: Piece, mut bytes: Vec<u8>) {
        // By its length: nothing longer was kept before, so what it has room for beyond this was never touched.
        if bytes.len() > KEEP_MAX {
            bytes.truncate(KEEP_MAX);
            bytes.shrink_to(KEEP_MAX);
        }
        *self.pieces[piece as usize].lock() = bytes;
    }

    /// Calls `f` with what compacting remembers.
    pub fn with_work<T>(&self, f: impl FnOnce(&mut Work) -> T) -> T {
        let mut work = self.work.lock();
        let result = f(&mut work);
        work.shrink_to(RECORDS_MAX);
        result
    }
}

#[cfg(test)]
mod tests;
