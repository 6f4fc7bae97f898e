//! Memory in which groups are made, kept from one to the next: a group is 1 MiB as a rule (S-14.4), and to ask the system for
//! that each time, and to give it back, took half of the time of making one (decision 0667).

use crate::segment::RING;
use parking_lot::Mutex;

/// Most bytes that are kept in one piece: what longer groups have is given back.
const KEEP_MAX: usize = RING / 4;

/// What a piece of memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Records of transactions.
    Records,
    /// What they are compacted to.
    Payload,
    /// Pages of the log.
    Pages,
}

/// A piece of each kind, with whatever bytes it was used for last.
#[derive(Default)]
pub struct Spare([Mutex<Vec<u8>>; 3]);

impl Spare {
    /// Takes a piece; it is empty if somebody has it.
    pub fn take(&self, piece: Piece) -> Vec<u8> {
        core::mem::take(&mut *self.0[piece as usize].lock())
    }

    /// Keeps a piece, unless it is too long.
    pub fn give(&self, piece: Piece, bytes: Vec<u8>) {
        if bytes.capacity() <= KEEP_MAX {
            *self.0[piece as usize].lock() = bytes;
        }
    }
}

#[cfg(test)]
mod tests;
