//! Memory in which groups are made, kept from one to the next: a group is 1 MiB as a rule (S-14.4), and to ask the system for
//! that each time, and to give it back, took half of the time of making one (decision 0667).

use crate::segment::RING;
use parking_lot::Mutex;

/// Most bytes of a piece that is kept, a group with a quarter more: what longer groups have is given back (P-9).
const KEEP_MAX: usize = RING / 32 * 5;

/// What a piece of memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Records of transactions, and later the pages of the log in which they go out.
    Whole,
    /// What the records are compacted to, between the two.
    Payload,
}

/// A piece of each kind, with whatever bytes it was used for last.
#[derive(Default)]
pub struct Spare([Mutex<Vec<u8>>; 2]);

impl Spare {
    /// Takes a piece; it is empty if somebody has it.
    pub fn take(&self, piece: Piece) -> Vec<u8> {
        core::mem::take(&mut *self.0[piece as usize].lock())
    }

    /// Keeps a piece, unless it is too long.
    pub fn give(&self, piece: Piece, bytes: Vec<u8>) {
        // By its length: nothing longer was kept before, so what it has room for beyond this was never touched.
        if bytes.len() <= KEEP_MAX {
            *self.0[piece as usize].lock() = bytes;
        }
    }
}

#[cfg(test)]
mod tests;
