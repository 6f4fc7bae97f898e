//! The undo log: what every change in an open transaction replaced (MinL2R; S-13.2, S-13.3).
//!
//! Slots lie in guarded shared memory, so that whoever comes after a killed server finds them. One slot a running
//! transaction; one record a change; a record carries the checksum delta D that its change folds, so that a
//! rollback can be proved instead of recomputed, and the new bytes, so that a stray write inside the range of a
//! change can be told from a copy that was cut (decision 0790).
//!
//! Invariants:
//! U-1 A record counts from the store of the slot's count on; what it describes begins after that store.
//! U-2 Only the last record that counts can be of a change that is not complete.
//! U-3 A record is used only in a private copy in which it reads back: generation, number, CRC and D (S-13.10).

mod slots;

pub use slots::{Head, State};

use crate::arena::FrameNo;
use crate::error::Error;
use crate::padded::Padded;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_memory::failpoint;
use keepfs_memory::{Guard, Region};
use smallvec::SmallVec;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Slots, which bound how many transactions run at a time.
pub const SLOTS: usize = 64;
/// Bytes of a slot.
const SLOT: usize = 256 * 1024;
/// Bytes of all slots and the page behind them.
const BYTES: usize = SLOTS * SLOT + PAGE;
const NAME: &str = "keepfs-session";
/// Bytes of a slot's head.
const SLOT_HEAD: usize = 128;
/// Bytes of a record's head.
const HEAD: usize = 40;

/// Bytes of a record that is put together before it is stored.
const RECORD_FEW: usize = 128;

/// How a change is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Undo {
    /// Store the old bytes: the range belongs to the transaction alone.
    Bytes = 1,
    /// The bits that differ between old and new become old: they belong to the transaction alone, the byte does not.
    Bits = 2,
}

impl Undo {
    fn of(number: u8) -> Option<Undo> {
        [Undo::Bytes, Undo::Bits].into_iter().find(|u| *u as u8 == number)
    }

    fn fits(self, len: usize) -> bool {
        match self {
            Undo::Bytes => (1..=PAGE).contains(&len),
            Undo::Bits => len == 1,
        }
    }
}

/// One record, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its number in the transaction.
    pub number: u32,
    /// How it is undone.
    pub undo: Undo,
    /// Which frame it changed.
    pub frame: FrameNo,
    /// Where.
    pub offset: usize,
    /// The delta folded into the rolling checksum.
    pub delta: u64,
    /// The bytes before. Of bits, only those that change.
    pub old: Vec<u8>,
    /// The bytes after.
    pub new: Vec<u8>,
}

/// A change, as the door tells it to the undo log.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub undo: Undo,
    pub frame: FrameNo,
    pub offset: usize,
    pub delta: u64,
    pub old: &'a [u8],
    pub new: &'a [u8],
}

/// One record in a private copy, where it reads back (U-3).
#[derive(Clone, Copy, Debug)]
pub struct Told<'b> {
    /// Its number in the transaction.
    pub number: u32,
    /// How it is undone.
    pub undo: Undo,
    /// Which frame it changed.
    pub frame: FrameNo,
    /// Where.
    pub offset: usize,
    /// The delta folded into the sum of the line.
    pub delta: u64,
    /// The bytes before. Of bits, only those that change.
    pub old: &'b [u8],
    /// The bytes after.
    pub new: &'b [u8],
}

impl<'b> Told<'b> {
    /// The record that begins here (S-13.3), if it is whole and of this generation of its slot.
    fn of(bytes: &'b [u8], generation: u32) -> Option<Told<'b>> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let half = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
        let (undo, len) = (Undo::of(head[16])?, len_in(head));
        let told = Told {
            number: half(4),
            undo,
            frame: half(8),
            offset: half(12) as usize & 0xffff,
            delta: word(24),
            old: rest.get(..len)?,
            new: rest.get(len.next_multiple_of(8)..)?.get(..len)?,
        };
        let is_possible = half(0) == generation && undo.fits(len) && told.offset + len <= PAGE;
        // D binds the new bytes.
        let is_whole = is_possible
            && crc64::full(&head[..32]) ^ crc64::full(told.old) == word(32)
            && crc64::delta(told.offset, told.old, told.new) == told.delta;
        is_whole.then_some(told)
    }

    fn kept(&self) -> Kept {
        Kept {
            number: self.number,
            undo: self.undo,
            frame: self.frame,
            offset: self.offset,
            delta: self.delta,
            old: self.old.to_vec(),
            new: self.new.to_vec(),
        }
    }
}

/// The length that a record's head tells.
fn len_in(head: &[u8; HEAD]) -> usize {
    usize::from(u16::from_le_bytes([head[14], head[15]]))
}

/// What its server knows of a record besides.
#[derive(Clone, Copy, Default)]
struct Start {
    /// Where it lies in the slot.
    at: u32,
    frame: FrameNo,
    delta: u64,
}

/// A record of the slot's own transaction that does not read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its number.
    pub number: u32,
    /// The frame that it was about.
    pub frame: FrameNo,
    /// What its change folded into the CRC-64 of the frame.
    pub delta: u64,
}

/// All slots.
pub struct UndoLog {
    region: Region,
    uses: Vec<Padded<Use>>,
}

/// What the heap knows of a slot.
struct Use {
    taken: AtomicBool,
    generation: AtomicU64,
}

thread_local! {
    /// The slot that this thread had last: its records lie in the cache of this thread's processor.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// A slot held by one transaction.
pub struct UndoSlot<'u> {
    log: &'u UndoLog,
    slot: usize,
    generation: u32,
    at: usize,
    number: u32,
    starts: SmallVec<[Start; 16]>,
}

impl Use {
    fn new(taken: bool) -> Use {
        Use {
            taken: AtomicBool::new(taken),
            generation: AtomicU64::new(1),
        }
    }

    /// Takes the slot if it is free.
    fn take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }
}

impl UndoLog {
    /// Makes the slots.
    pub fn new(guard: Guard, seal: bool) -> Result<UndoLog, Error> {
        UndoLog::empty(Region::new(NAME, BYTES, guard, seal))
    }

    /// Makes slots whose descriptor is kept for whoever adopts them.
    pub fn lasting(guard: Guard, seal: bool) -> Result<UndoLog, Error> {
        UndoLog::empty(Region::lasting(NAME, BYTES, guard, seal))
    }

    fn empty(region: std::io::Result<Region>) -> Result<UndoLog, Error> {
        let undo = UndoLog::made(region, false)?;
        for at in slots::LAYOUT {
            undo.region.store_u64(at, slots::LAYOUT_NOW);
        }
        Ok(undo)
    }

    /// The slots that a killed server left; all are taken until they are retired. Errors: `Memory`, `Damaged`.
    pub fn adopt(descriptor: OwnedFd, guard: Guard, seal: bool) -> Result<UndoLog, Error> {
        let undo = UndoLog::made(Region::adopt(descriptor, guard, seal), true)?;
        match undo.region.bytes() == BYTES {
            true => Ok(undo),
            false => Err(Error::Damaged("the undo slots are not those of this version".into())),
        }
    }

    /// Whether one of the two places says that slots and records are laid out as this version does it (S-13.2).
    pub fn is_readable(&self) -> bool {
        self.layout().contains(&slots::LAYOUT_NOW)
    }

    /// Whether the two places say the same, or the second one nothing, as a server left it that had only the first.
    pub fn is_layout_whole(&self) -> bool {
        let [first, second] = self.layout();
        second == first || second == 0
    }

    fn layout(&self) -> [u64; 2] {
        slots::LAYOUT.map(|at| self.region.load_u64(at, Ordering::Acquire))
    }

    fn made(region: std::io::Result<Region>, taken: bool) -> Result<UndoLog, Error> {
        let region = region.map_err(|source| Error::Memory {
            bytes: BYTES,
            source: Arc::new(source),
        })?;
        Ok(UndoLog {
            region,
            uses: (0..SLOTS).map(|_| Padded::new(Use::new(taken))).collect(),
        })
    }

    /// The descriptor of slots that last.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.region.descriptor()
    }

    /// The greatest number, at most `most`, that a slot told as committed; nothing but the state of the slot guards it.
    pub fn last_told(&self, most: u64) -> u64 {
        let is_right = |slot: &usize| matches!(self.head(*slot).state, Some(State::Free | State::Committed));
        let told = self.slots().filter(is_right).map(|slot| {
            let at = slot * SLOT + slots::SEQ;
            self.region.load_u64(at, Ordering::Acquire)
        });
        told.filter(|seq| *seq <= most).max().unwrap_or(0)
    }

    /// The greatest number that a slot has, of a transaction that it committed or was about to; a slot keeps the last one until it has
    /// another. `None`: the state of a slot is damaged, and its number may be.
    pub fn last_numbered(&self) -> Option<u64> {
        let number = |slot: usize| {
            let is_right = self.head(slot).state.is_some();
            is_right.then(|| self.region.load_u64(slot * SLOT + slots::SEQ, Ordering::Acquire))
        };
        self.slots().try_fold(0, |last, slot| Some(number(slot)?.max(last)))
    }

    /// Takes a free slot, the one that this thread had last if it can; waits while all are in use (transactions never wait
    /// themselves, so this is short).
    pub fn open(&self) -> UndoSlot<'_> {
        let last = LAST.get();
        loop {
            let free = (last..SLOTS).chain(0..last).find(|slot| self.uses[*slot].take());
            if let Some(slot) = free {
                LAST.set(slot);
                let generation = self.uses[slot].generation.fetch_add(1, Ordering::Relaxed) as u32;
                self.begin(slot, generation);
                return UndoSlot {
                    log: self,
                    slot,
                    generation,
                    at: SLOT_HEAD,
                    number: 0,
                    starts: SmallVec::new(),
                };
            }
            crate::locks::yield_now();
        }
    }
}

impl UndoSlot<'_> {
    /// Door, step 1: publishes the undo record of a change about to be made (U-1).
    pub(crate) fn keep(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let size = size_of(change.old.len());
        if !change.undo.fits(change.old.len()) || self.at + size > SLOT {
            return Err(Error::Logic("a transaction is larger than its undo log".into()));
        }
        self.write(change);
        self.starts.push(Start {
            at: self.at as u32,
            frame: change.frame,
            delta: change.delta,
        });
        self.at += size;
        self.number += 1;
        self.log.set(self.slot, slots::COUNT, u64::from(self.number));
        Ok(())
    }

    fn write(&self, change: &Change<'_>) {
        let mut head = [0; HEAD];
        head[0..4].copy_from_slice(&self.generation.to_le_bytes());
        head[4..8].copy_from_slice(&self.number.to_le_bytes());
        head[8..12].copy_from_slice(&change.frame.to_le_bytes());
        head[12..14].copy_from_slice(&(change.offset as u16).to_le_bytes());
        head[14..16].copy_from_slice(&(change.old.len() as u16).to_le_bytes());
        head[16] = change.undo as u8;
        head[24..32].copy_from_slice(&change.delta.to_le_bytes());
        let crc = crc64::full(&head[..32]) ^ crc64::full(change.old);
        head[32..40].copy_from_slice(&crc.to_le_bytes());
        let base = self.slot * SLOT + self.at;
        let len = change.old.len();
        let new_at = HEAD + len.next_multiple_of(8);
        if new_at + len <= RECORD_FEW {
            let mut record = [0; RECORD_FEW];
            record[HEAD..HEAD + len].copy_from_slice(change.old);
            record[new_at..new_at + len].copy_from_slice(change.new);
            self.log.region.store(base + HEAD, &record[HEAD..new_at + len]);
        } else {
            self.log.region.store(base + HEAD, change.old);
            self.log.region.store(base + new_at, change.new);
        }
        // The head comes last: with it the record counts.
        self.log.region.store(base, &head);
    }

    /// Number of the next record.
    #[inline]
    pub(crate) fn next(&self) -> u32 {
        self.number
    }

    /// Record `number` and all after it are taken back; those before still count.
    #[inline]
    pub fn taken_back(&self, number: u32) {
        self.log.set(self.slot, slots::LEFT, u64::from(number) + 1);
    }

    /// The records, last first, each read when it is asked for (U-3).
    pub(crate) fn backwards(&self) -> impl Iterator<Item = Result<Kept, Lost>> {
        let starts = self.starts.iter().enumerate().rev();
        starts.map(|(number, start)| {
            let number = number as u32;
            let kept = self.log.read(self.slot, start.at as usize, self.generation);
            kept.filter(|kept| kept.number == number).ok_or(Lost {
                number,
                frame: start.frame,
                delta: start.delta,
            })
        })
    }

    /// A private copy of all records.
    pub fn copied<'b>(&self, buf: &'b mut Vec<u8>) -> &'b [u8] {
        let len = self.at - SLOT_HEAD;
        if buf.len() < len {
            buf.resize(len, 0);
        }
        self.log.region.load(self.slot * SLOT + SLOT_HEAD, &mut buf[..len]);
        &buf[..len]
    }

    /// The records in such a copy, in order, for who judges the whole transaction; `None`: this one does not read back (U-3).
    pub fn forwards<'b>(&self, copied: &'b [u8]) -> impl Iterator<Item = Option<Told<'b>>> {
        self.starts.iter().enumerate().map(move |(number, start)| {
            let told = Told::of(copied.get(start.at as usize - SLOT_HEAD..)?, self.generation)?;
            (told.number == number as u32).then_some(told)
        })
    }

    /// The slot and its generation, for the redo entry (S-14.2) and its stripe of TOTALS (S-13.4).
    #[inline]
    pub fn place(&self) -> (u16, u32) {
        (self.slot as u16, self.generation)
    }

    /// Whether nothing was changed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The one store that decides: from here on the transaction is committed as number `seq`.
    #[inline]
    pub fn commit(&self, seq: u64) {
        self.log.set(self.slot, slots::SEQ, seq);
        self.log
            .set(self.slot, slots::STATE, State::Committed.word(self.generation));
    }
}

impl Drop for UndoSlot<'_> {
    fn drop(&mut self) {
        self.log.set(self.slot, slots::STATE, State::Free.word(self.generation));
        if !failpoint::is_dead() {
            self.log.uses[self.slot].taken.store(false, Ordering::Release);
        }
    }
}

/// Bytes of a record with `len` old bytes.
fn size_of(len: usize) -> usize {
    HEAD + 2 * len.next_multiple_of(8)
}

#[cfg(test)]
mod tests;
