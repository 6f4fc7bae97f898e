//! The undo log: what every change in an open transaction replaced (MinL2R; PROTOCOLS section 2).
//!
//! Slots lie in guarded shared memory, so that whoever comes after a killed server finds them. One slot a running
//! transaction; one record a change; a record carries the checksum delta D that its change folds, so that a
//! rollback can be proved instead of recomputed.
//!
//! Slot: state word u64 (generation << 2 | state), seq u64, 48 reserved bytes; then records back to back.
//! Record (40 bytes): generation u32, number u32, frame u32, offset u16, length u16, kind u8, 7 reserved, D u64,
//! CRC-64 of the 32 bytes before and the old bytes; then the old bytes, padded to 8.

use crate::arena::{FrameNo, Guard, Region};
use crate::error::{Error, Stop};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use keepfs_codes::crc64;
use std::sync::Arc;

/// Slots, which bound how many transactions run at a time.
const SLOTS: usize = 64;
/// Bytes of a slot.
const SLOT: usize = 128 * 1024;
/// Bytes of a slot's head.
const SLOT_HEAD: usize = 64;
/// Bytes of a record's head.
const HEAD: usize = 40;
/// Most old bytes of one record.
const OLD_MAX: usize = 4096;

/// Slot state: nobody uses it, or its transaction is retired.
pub const FREE: u64 = 0;
/// Slot state: records count and must be undone.
pub const OPEN: u64 = 1;
/// Slot state: the transaction is committed; its records are void.
pub const COMMITTED: u64 = 2;

/// How a change is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Undo {
    /// Store the old bytes: the range belongs to the transaction alone.
    Bytes = 1,
    /// XOR the same mask again.
    Bits = 2,
    /// Subtract the delta (8-byte counter).
    Add64 = 3,
    /// Subtract the delta (2-byte counter).
    Add16 = 4,
}

impl Undo {
    fn of(number: u8) -> Option<Undo> {
        [Undo::Bytes, Undo::Bits, Undo::Add64, Undo::Add16]
            .into_iter()
            .find(|u| *u as u8 == number)
    }
}

/// One record, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// How it is undone.
    pub undo: Undo,
    /// Which frame it changed.
    pub frame: FrameNo,
    /// Where.
    pub offset: usize,
    /// The delta folded into the rolling checksum.
    pub delta: u64,
    /// Old bytes, mask, or added number.
    pub old: Vec<u8>,
}

/// All slots.
pub struct UndoLog {
    region: Region,
    taken: Vec<AtomicBool>,
    generations: Vec<AtomicU64>,
}

/// A slot held by one transaction.
pub struct UndoSlot<'u> {
    log: &'u UndoLog,
    slot: usize,
    generation: u32,
    at: usize,
    number: u32,
    starts: Vec<u32>,
}

impl UndoLog {
    /// Makes the slots.
    pub fn new(guard: Guard, seal: bool) -> Result<UndoLog, Error> {
        let bytes = SLOTS * SLOT;
        let region = Region::new("keepfs-session", bytes, guard, seal).map_err(|source| Error::Memory {
            bytes,
            source: Arc::new(source),
        })?;
        Ok(UndoLog {
            region,
            taken: (0..SLOTS).map(|_| AtomicBool::new(false)).collect(),
            generations: (0..SLOTS).map(|_| AtomicU64::new(1)).collect(),
        })
    }

    /// Takes a free slot; waits while all are in use (transactions never wait themselves, so this is short).
    pub fn open(&self) -> UndoSlot<'_> {
        loop {
            let free = self
                .taken
                .iter()
                .position(|t| !t.load(Ordering::Relaxed) && !t.swap(true, Ordering::Acquire));
            if let Some(slot) = free {
                let generation = self.generations[slot].fetch_add(1, Ordering::Relaxed) as u32;
                self.region
                    .store_u64(slot * SLOT, (u64::from(generation) << 2) | OPEN, Ordering::Release);
                return UndoSlot {
                    log: self,
                    slot,
                    generation,
                    at: SLOT_HEAD,
                    number: 0,
                    starts: Vec::new(),
                };
            }
            std::thread::yield_now();
        }
    }
}

impl UndoSlot<'_> {
    /// Door, step 1: publishes the undo record of a change about to be made.
    pub fn keep(&mut self, undo: Undo, frame: FrameNo, offset: usize, delta: u64, old: &[u8]) -> Result<(), Stop> {
        let size = (HEAD + old.len()).next_multiple_of(8);
        if old.len() > OLD_MAX || self.at + size > SLOT {
            return Err(Error::Logic("a transaction is larger than its undo log".into()).into());
        }
        self.write(self.at, self.number, undo, frame, offset, delta, old);
        self.starts.push(self.at as u32);
        self.at += size;
        self.number += 1;
        Ok(())
    }

    /// Rewrites the last record: a counter moved between reading and adding.
    pub fn amend(&mut self, undo: Undo, frame: FrameNo, offset: usize, delta: u64, old: &[u8]) {
        if let Some(at) = self.starts.last() {
            self.write(*at as usize, self.number - 1, undo, frame, offset, delta, old);
        }
    }

    #[allow(clippy::too_many_arguments)] // The fields of a record.
    fn write(&self, at: usize, number: u32, undo: Undo, frame: FrameNo, offset: usize, delta: u64, old: &[u8]) {
        let mut head = [0; HEAD];
        head[0..4].copy_from_slice(&self.generation.to_le_bytes());
        head[4..8].copy_from_slice(&number.to_le_bytes());
        head[8..12].copy_from_slice(&frame.to_le_bytes());
        head[12..14].copy_from_slice(&(offset as u16).to_le_bytes());
        head[14..16].copy_from_slice(&(old.len() as u16).to_le_bytes());
        head[16] = undo as u8;
        head[24..32].copy_from_slice(&delta.to_le_bytes());
        let crc = crc64::full(&head[..32]) ^ crc64::full(old);
        head[32..40].copy_from_slice(&crc.to_le_bytes());
        let base = self.slot * SLOT + at;
        self.log.region.store(base + HEAD, old);
        self.log.region.store(base, &head);
        core::sync::atomic::fence(Ordering::Release);
    }

    /// The records, last first.
    pub fn backwards(&self) -> impl Iterator<Item = Kept> + '_ {
        self.starts.iter().rev().filter_map(|at| self.read(*at as usize))
    }

    fn read(&self, at: usize) -> Option<Kept> {
        let base = self.slot * SLOT + at;
        let mut head = [0; HEAD];
        self.log.region.load(base, &mut head);
        let len = usize::from(u16::from_le_bytes([head[14], head[15]]));
        let mut old = vec![0; len.min(OLD_MAX)];
        self.log.region.load(base + HEAD, &mut old);
        let word = |i: usize| head[i..i + 8].try_into().map(u64::from_le_bytes).unwrap_or(0);
        if crc64::full(&head[..32]) ^ crc64::full(&old) != word(32) {
            return None;
        }
        Some(Kept {
            undo: Undo::of(head[16])?,
            frame: u32::from_le_bytes([head[8], head[9], head[10], head[11]]),
            offset: usize::from(u16::from_le_bytes([head[12], head[13]])),
            delta: word(24),
            old,
        })
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The one store that decides: from here on the transaction is committed as number `seq`.
    pub fn commit(&self, seq: u64) {
        self.log.region.store_u64(self.slot * SLOT + 8, seq, Ordering::Relaxed);
        let word = (u64::from(self.generation) << 2) | COMMITTED;
        self.log.region.store_u64(self.slot * SLOT, word, Ordering::Release);
    }
}

impl Drop for UndoSlot<'_> {
    fn drop(&mut self) {
        self.log.region.store_u64(
            self.slot * SLOT,
            (u64::from(self.generation) << 2) | FREE,
            Ordering::Release,
        );
        self.log.taken[self.slot].store(false, Ordering::Release);
    }
}
