//! The part of the session segment that holds redo and staged data: one guarded memfd (SPEC section 14).
//!
//! Here is only where things lie. What they mean: [`crate::redo`] (the ring) and [`crate::staged`] (the slots).
//!
//! Invariants:
//! G-1 Whatever the heap knows of it can be rebuilt from it.
//! G-2 Every access stays in its part: ring, heads, pages.

mod again;
mod words;

pub use words::Word;

use crate::error::Error;
use crate::twice::{self, Found};
use core::sync::atomic::{AtomicI64, Ordering};
use keepfs_codes::{Protection, crc64};
use keepfs_format::PAGE;
use keepfs_memory::{Guard, Region};
use keepfs_pool::code;
use keepfs_vault::Padded;
use keepfs_vault::locks::Mutex;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of the redo ring.
pub const RING: usize = 8 << 20;
/// Bytes of a slot's head.
pub const HEAD: usize = 64;
/// Whole slots beyond twice the most staged pages: for pages about to replace others.
pub const SPARE_SLOTS: usize = 256;
/// Bytes of a page that a small slot has; behind them the page is zeros.
pub const SMALL: usize = PAGE / 4;
/// Small slots for each whole one: as much as may be staged, all of it small, and what replaces it.
const SMALL_EACH: usize = 2;

const NAME: &str = "keepfs-staging";
const MAGIC: u64 = 0x3147_5453_5346_504B;
const LAYOUT: u64 = 3;
/// Of servers before, which another program may follow.
const LAYOUT_BEFORE: u64 = 2;
/// Where the ring begins.
pub const RING_AT: usize = PAGE;
const HEADS_AT: usize = RING_AT + RING;
/// Most slots that a header may tell.
const SLOTS_MAX: u64 = 1 << 20;

/// Bytes of the header.
const HEADER: usize = 48;

/// What [`Word::Fault`] is then (S-1.3).
const DEVICE_FAILED: u64 = 0x4D9A_36C5_B265_3A1B;

/// The mapped segment.
pub struct Segment {
    region: Region,
    incarnation: u64,
    /// The CRC-64 of the incarnation, with which those of the words begin.
    seed: u64,
    /// Its words are those of layout 2.
    is_former: bool,
    /// The header was changed at one of its places.
    header_changed: bool,
    /// Whoever stores a word of page 0 that is not redo's.
    noting: Mutex<()>,
    /// Whole slots; those behind them are small.
    slots: u32,
    /// Bytes of the ring that nobody holds; follows from the entries kept. Below 0 for the moment in which somebody who
    /// wanted more than there is gives it back.
    room: Padded<AtomicI64>,
}

/// Where the parts of a segment begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extent {
    /// The pages of whole slots.
    pages_at: usize,
    /// Those of small slots.
    small_at: usize,
    /// Nothing more.
    end: usize,
}

impl Extent {
    /// Of a segment of `slots` whole slots.
    const fn of(slots: usize) -> Extent {
        let heads = slots * (1 + SMALL_EACH);
        let pages_at = (HEADS_AT + heads * HEAD).next_multiple_of(PAGE);
        let small_at = pages_at + slots * PAGE;
        Extent {
            pages_at,
            small_at,
            end: (small_at + slots * SMALL_EACH * SMALL).next_multiple_of(PAGE),
        }
    }
}

/// What the header tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Header {
    is_former: bool,
    incarnation: u64,
    slots: u64,
}

impl Header {
    /// The header of a segment of `bytes` bytes, if it is one.
    fn of(header: &[u8; HEADER], bytes: usize) -> Option<Header> {
        let word = |i: usize| header[8 * i..].first_chunk().map_or(0, |w| u64::from_le_bytes(*w));
        let found = Header {
            is_former: word(1) == LAYOUT_BEFORE,
            incarnation: word(2),
            slots: word(4),
        };
        let is_possible = found.slots <= SLOTS_MAX && Extent::of(found.slots as usize).end == bytes;
        (is_possible && found.bytes() == *header).then_some(found)
    }

    fn found(region: &Region) -> Found<Header> {
        twice::found(region, 0, |header| Header::of(header, region.bytes()))
    }

    fn bytes(&self) -> [u8; HEADER] {
        let layout = if self.is_former { LAYOUT_BEFORE } else { LAYOUT };
        let mut header = [0; HEADER];
        let words = [MAGIC, layout, self.incarnation, RING as u64, self.slots];
        for (to, word) in header.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc64::full(&header[..HEADER - 8]);
        header[HEADER - 8..].copy_from_slice(&crc.to_le_bytes());
        header
    }
}

impl Segment {
    /// A new, empty segment of `slots` whole slots. If it is `lasting`, its descriptor is kept for whoever adopts it.
    pub fn new(slots: usize, guard: Guard, seal: bool, lasting: bool) -> Result<Segment, Error> {
        let bytes = Extent::of(slots).end;
        let make = if lasting { Region::lasting } else { Region::new };
        let region = make(NAME, bytes, guard, seal).map_err(|source| memory(bytes, source))?;
        Segment::begin(region, slots)
    }

    /// The segment that an earlier life of the server left (S-14.8). Errors: `Memory`; `Damaged` if it is not one.
    pub fn adopt(descriptor: OwnedFd, guard: Guard, seal: bool) -> Result<Segment, Error> {
        let region = Region::adopt(descriptor, guard, seal).map_err(|source| memory(0, source))?;
        let found = Header::found(&region);
        match found {
            Found::Both(header) | Found::One(header) => Ok(Segment {
                header_changed: matches!(found, Found::One(_)),
                ..Segment::over(region, header)
            }),
            Found::Neither => Err(Error::Damaged(
                "the session segment is not one that this version left, or one before it".into(),
            )),
        }
    }

    /// A segment whose header is right at neither place, of the life that somebody else knows it to be of: what is right in its ring can
    /// be told, and nothing more. Errors: as [`Segment::adopt`].
    pub fn headless(descriptor: OwnedFd, guard: Guard, incarnation: u64) -> Result<Segment, Error> {
        let region = Region::adopt(descriptor, guard, false).map_err(|source| memory(0, source))?;
        let slots = (0..=SLOTS_MAX).find(|slots| Extent::of(*slots as usize).end == region.bytes());
        let slots = slots.ok_or_else(|| Error::Damaged("the session segment has a size that none has".into()))?;
        let header = Header {
            is_former: false,
            incarnation,
            slots,
        };
        Ok(Segment::over(region, header))
    }

    /// The first words of a new life.
    fn begin(region: Region, slots: usize) -> Result<Segment, Error> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
        let header = Header {
            is_former: false,
            incarnation: u64::from_le_bytes(random),
            slots: slots as u64,
        };
        twice::store(&region, 0, &header.bytes());
        let segment = Segment::over(region, header);
        Word::ALL.iter().for_each(|word| segment.set_word(*word, 0));
        Ok(segment)
    }

    fn over(region: Region, header: Header) -> Segment {
        Segment {
            region,
            incarnation: header.incarnation,
            seed: crc64::full(&header.incarnation.to_le_bytes()),
            is_former: header.is_former,
            header_changed: false,
            noting: Mutex::new(()),
            slots: header.slots as u32,
            room: Padded::new(AtomicI64::new(RING as i64 - 8)),
        }
    }

    /// Guarded memory, for fault injection and tests.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Seeds every checksum in it.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Number of staged slots, small ones too: the whole ones come first.
    pub fn slots(&self) -> u32 {
        self.slots * (1 + SMALL_EACH as u32)
    }

    /// Whether a slot has only the first [`SMALL`] bytes of a page.
    pub fn is_small(&self, slot: u32) -> bool {
        slot >= self.slots
    }

    /// Bytes of a page that a slot has.
    pub fn len_of(&self, slot: u32) -> usize {
        if self.is_small(slot) { SMALL } else { PAGE }
    }

    /// Most whole pages that may be staged at a time (S-14.7).
    pub fn staged_most(&self) -> usize {
        (self.slots as usize).saturating_sub(SPARE_SLOTS) / 2
    }

    /// Writing to the pool has ended because the device failed: a restarted server does not write either (S-16.6).
    pub fn note_device_failed(&self) {
        let _alone = self.noting.lock();
        self.set_word(Word::Fault, DEVICE_FAILED);
    }

    /// Whether that was noted. Where nobody can tell it was: nothing is written then (S-14.8).
    pub fn device_failed(&self) -> bool {
        self.word(Word::Fault).is_none_or(|word| word == DEVICE_FAILED)
    }

    /// From the log behind the superblock of `generation` group `first` and those behind it were not taken.
    pub fn note_refused(&self, generation: u64, first: u64) {
        self.set_word(Word::Refused, first);
        self.set_word(Word::RefusedBehind, generation);
    }

    /// The first group that was not taken from the log behind the superblock of `generation`, if that was noted.
    pub fn refused(&self, generation: u64) -> Option<u64> {
        self.word(Word::RefusedBehind).filter(|behind| *behind == generation)?;
        self.word(Word::Refused)
    }

    /// The frames of the same set have this code.
    pub fn note_code(&self, code: Protection) {
        self.set_word(Word::Code, code::number(code).map_or(0, |number| u64::from(number) + 1));
    }

    /// The code that was noted, if any.
    pub fn code(&self) -> Option<Protection> {
        let number = self.word(Word::Code)?.checked_sub(1)?;
        u8::try_from(number).ok().and_then(code::of)
    }

    /// Takes room for an entry of `bytes` (S-14.13). `false` if there is none.
    pub fn take_room(&self, bytes: usize) -> bool {
        // One step for the line that all commits share; who finds too little gives it back.
        let had = self.room.fetch_sub(bytes as i64, Ordering::AcqRel);
        if had < bytes as i64 {
            self.give_room(bytes);
        }
        had >= bytes as i64
    }

    /// Gives room back.
    pub fn give_room(&self, bytes: usize) {
        self.room.fetch_add(bytes as i64, Ordering::AcqRel);
    }

    /// Bytes of the ring in use or taken.
    pub fn ring_in_use(&self) -> usize {
        RING - 8 - self.room.load(Ordering::Acquire).max(0) as usize
    }

    /// Stores bytes at an offset of the ring; they go on at its start when they meet its end.
    pub fn ring_store(&self, at: usize, bytes: &[u8]) {
        assert!(at < RING && bytes.len() < RING, "store beyond the ring"); // G-2
        let (first, rest) = bytes.split_at(bytes.len().min(RING - at));
        self.region.store(RING_AT + at, first);
        if !rest.is_empty() {
            self.region.store(RING_AT, rest);
        }
    }

    /// Page 0 becomes what a server of layout 2 has, whose staged table followed transaction `followed`.
    #[cfg(any(test, feature = "strays"))]
    pub fn become_former(&self, followed: u64) {
        let words = Word::ALL.map(|word| self.word(word).unwrap_or_default());
        let header = Header {
            is_former: true,
            incarnation: self.incarnation,
            slots: u64::from(self.slots),
        };
        self.region.store(0, &[0; PAGE]);
        self.region.store(0, &header.bytes());
        for (word, value) in Word::ALL.into_iter().zip(words) {
            let value = match word {
                Word::Cursor => (value & 0xF_FFFF) << 3 | (value >> 20 & 0xF_FFFF) << 35,
                Word::Followed => followed,
                _ => value,
            };
            self.region.store_u64(word.at_before(), value);
        }
    }

    /// Loads bytes from the ring.
    pub fn ring_load(&self, at: usize, buf: &mut [u8]) {
        assert!(at < RING && buf.len() < RING, "load beyond the ring"); // G-2
        let (first, rest) = buf.split_at_mut(buf.len().min(RING - at));
        self.region.load(RING_AT + at, first);
        if !rest.is_empty() {
            self.region.load(RING_AT, rest);
        }
    }

    /// Where the head of a slot lies in [`Segment::region`].
    pub fn head_place(&self, slot: u32) -> usize {
        assert!(slot < self.slots(), "no such slot"); // G-2
        HEADS_AT + slot as usize * HEAD
    }

    /// Where the page of a slot lies in [`Segment::region`].
    pub fn page_at(&self, slot: u32) -> usize {
        assert!(slot < self.slots(), "no such slot"); // G-2
        let extent = Extent::of(self.slots as usize);
        match slot.checked_sub(self.slots) {
            Some(small) => extent.small_at + small as usize * SMALL,
            None => extent.pages_at + slot as usize * PAGE,
        }
    }

    /// The head of a slot.
    pub fn head(&self, slot: u32) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        self.region.load(self.head_place(slot), &mut head);
        head
    }

    /// Stores the head of a free slot: its first word decides (S-14.6).
    pub fn set_head(&self, slot: u32, head: &[u8; HEAD]) {
        let at = self.head_place(slot);
        self.region.store(at + 8, &head[8..]);
        let crc = head.first_chunk().map_or(0, |crc| u64::from_le_bytes(*crc));
        self.region.store_u64(at, crc);
    }

    /// The slot is free from here on.
    pub fn clear_head(&self, slot: u32) {
        self.region.store_u64(self.head_place(slot), 0);
    }

    /// Loads the page of a slot.
    pub fn load_page(&self, slot: u32, page: &mut [u8; PAGE]) {
        let (has, lacks) = page.split_at_mut(self.len_of(slot));
        self.region.load(self.page_at(slot), has);
        lacks.fill(0);
    }

    /// Stores the page of a free slot; what a small one lacks is zeros.
    pub fn store_page(&self, slot: u32, page: &[u8; PAGE]) {
        self.region.store(self.page_at(slot), &page[..self.len_of(slot)]);
    }
}

fn memory(bytes: usize, source: std::io::Error) -> Error {
    Error::Memory {
        bytes,
        source: Arc::new(source),
    }
}

#[cfg(test)]
mod tests;
