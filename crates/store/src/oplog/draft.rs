//! What a transaction will append to the operation log, collected while it is open (S-12.3, S-12.4).
//!
//! The memory is kept per thread from one transaction to the next, so that nothing is allocated as a rule. What is collected
//! has a sum from when it is added (S-13.16).

use keepfs_codes::crc64;
use keepfs_format::inode::SIZE;
use keepfs_format::oplog::{Operation, TXN_HEAD};
use std::cell::Cell;

/// Bytes of memory that a thread keeps at most.
const KEEP_MAX: usize = 64 << 10;

/// An object, its inode as it was, and the CRC-64 of both.
type Earlier = (u64, [u8; SIZE], u64);

fn sum_of(object: u64, inode: &[u8; SIZE]) -> u64 {
    crc64::seeded(object, inode)
}

thread_local! {
    static SPARE: Cell<Option<(Vec<u8>, Vec<Earlier>)>> = const { Cell::new(None) };
}

/// Operations and earlier states of one open transaction.
pub(crate) struct Draft {
    /// The entry: room for its head, then the operations.
    bytes: Vec<u8>,
    count: u32,
    earlier: Vec<Earlier>,
    /// CRC-64 of the operations, how many they and the states are, and where they end.
    sum: u64,
    added: (u32, usize, usize),
}

impl Draft {
    /// An empty draft.
    pub fn new() -> Draft {
        let (mut bytes, mut earlier) = SPARE.take().unwrap_or_default();
        bytes.clear();
        earlier.clear();
        bytes.resize(TXN_HEAD, 0);
        Draft {
            bytes,
            count: 0,
            earlier,
            sum: crc64::full(&[]),
            added: (0, 0, TXN_HEAD),
        }
    }

    /// Adds an operation. `false` if its data is longer than an operation's may be.
    pub fn push(&mut self, operation: &Operation<'_>) -> bool {
        self.count += 1;
        let start = self.bytes.len();
        let fits = operation.encode(&mut self.bytes);
        self.sum = crc64::more(self.sum, &self.bytes[start..]);
        self.added = (self.added.0 + 1, self.added.1, self.bytes.len());
        fits
    }

    /// Whether the object's earlier state is kept already.
    pub fn knows(&self, object: u64) -> bool {
        self.earlier.iter().any(|(o, ..)| *o == object)
    }

    /// Keeps an object's earlier state; `fill` writes it. Errors: those of `fill`: then nothing is kept.
    pub fn keep<E>(&mut self, object: u64, fill: impl FnOnce(&mut [u8; SIZE]) -> Result<(), E>) -> Result<(), E> {
        let mut inode = [0; SIZE];
        fill(&mut inode)?;
        self.added.1 += 1;
        self.earlier.push((object, inode, sum_of(object, &inode)));
        Ok(())
    }

    /// The operations so far, back to back.
    pub fn operations(&self) -> &[u8] {
        self.bytes.get(TXN_HEAD..).unwrap_or_default()
    }

    /// The objects changed, as they were.
    pub fn earlier(&self) -> &[Earlier] {
        &self.earlier
    }

    /// Whether they are what was added.
    pub fn is_right(&self) -> bool {
        let (count, states, end) = self.added;
        let is_state = |(object, inode, sum): &Earlier| sum_of(*object, inode) == *sum;
        (self.count, self.earlier.len()) == (count, states)
            && self.bytes.get(TXN_HEAD..end).map(crc64::full) == Some(self.sum)
            && self.earlier.iter().all(is_state)
    }

    /// A stray write.
    #[cfg(test)]
    pub fn scribble(&mut self, change: impl FnOnce(&mut Vec<u8>, &mut Vec<Earlier>)) {
        change(&mut self.bytes, &mut self.earlier);
    }

    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.earlier.is_empty()
    }

    /// Bytes of the entry.
    pub fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(8)
    }

    /// The whole entry: head filled in, padded (S-12.3). `chain` is what its CRC is seeded with.
    pub fn finish(&mut self, seq: u64, chain: u64) -> &[u8] {
        let len = (self.bytes.len() - TXN_HEAD) as u32;
        self.bytes[8..16].copy_from_slice(&seq.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[20..24].copy_from_slice(&len.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let crc = crc64::seeded(chain, &self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&crc.to_le_bytes());
        &self.bytes
    }

    /// The CRC of the finished entry, which seeds the next one's.
    pub fn crc(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, |crc| u64::from_le_bytes(*crc))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEEP_MAX {
            SPARE.set(Some((
                core::mem::take(&mut self.bytes),
                core::mem::take(&mut self.earlier),
            )));
        }
    }
}
