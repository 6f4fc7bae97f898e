//! Slots of the session segment that hold staged pages (S-14.5, S-14.6).

use super::stacks::Stacks;
use super::{Full, Key, Placed};
use crate::segment::{HEAD, SMALL, Segment};
use keepfs_codes::{crc32c, crc64};
use keepfs_format::PAGE;
use std::sync::Arc;

/// Flag of a head: the page was found damaged when it was changed.
const DAMAGED: u32 = 1;
/// Base of a page whose head was damaged.
const UNKNOWN: u64 = u64::MAX;

/// What a slot's head says besides the page's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Inode and index.
    pub key: Key,
    /// Device page that lies under it, 0 = none.
    pub base: u64,
    /// CRC-32C of that page.
    pub base_crc: u32,
    /// Version of the inode when it was last staged.
    pub version: u32,
    /// It was damaged when it was changed: its content is not to be used.
    pub damaged: bool,
    /// Counts up with each change of any staged page.
    pub stamp: u64,
    /// Stamp of its first staging; smaller = staged for longer.
    pub first: u64,
}

/// What stands in a slot's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing.
    Free,
    /// A page with this CRC-32C.
    Page(Head, u32),
    /// Something that is not what its checksum says.
    Damaged,
}

/// Which slots are free.
///
/// Small slots are taken while there are any; what a transaction counts on are whole ones, which fit any page.
pub struct Slots {
    segment: Arc<Segment>,
    free: Stacks,
    free_small: Stacks,
    /// Free, but a checkpoint still carries them over.
    held: Vec<u32>,
    /// A checkpoint carries over what was stored up to this stamp; 0 = none does.
    carried: u64,
    /// Free whole slots that transactions about to commit count on.
    taken: usize,
}

/// The head of a page of which nothing is known but whether a device page lies under it.
pub fn unknown(key: Key, based: bool, stamp: u64) -> Head {
    Head {
        key,
        base: if based { UNKNOWN } else { 0 },
        base_crc: 0,
        version: 0,
        damaged: true,
        stamp,
        first: stamp,
    }
}

/// Whether a page fits into a small slot.
pub fn is_small(page: &[u8; PAGE]) -> bool {
    let (parts, _) = page[SMALL..].as_chunks::<64>();
    parts.iter().all(|part| *part == [0; 64])
}

/// CRC-32C of what a slot has of a page.
pub fn checksum(segment: &Segment, slot: u32, page: &[u8; PAGE]) -> u32 {
    crc32c::of(&page[..segment.len_of(slot)])
}

impl Slots {
    /// These slots are free.
    pub fn new(segment: Arc<Segment>, free: impl Iterator<Item = u32>) -> Slots {
        let (free_small, free) = free.partition(|slot| segment.is_small(*slot));
        Slots {
            segment,
            free: Stacks::of(free),
            free_small: Stacks::of(free_small),
            held: Vec::new(),
            carried: 0,
            taken: 0,
        }
    }

    /// The free slots, for tests.
    #[cfg(test)]
    pub fn free_list(&self) -> Vec<u32> {
        [self.free.all(), self.free_small.all()].concat()
    }

    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    pub fn page_at(&self, slot: u32) -> usize {
        self.segment.page_at(slot)
    }

    pub fn take_room(&mut self, count: usize) -> bool {
        let fits = self.taken + count <= self.free.len();
        self.taken += if fits { count } else { 0 };
        fits
    }

    pub fn give_room(&mut self, count: usize) {
        self.taken -= count;
    }

    /// Turns room for one page into slots for it: a small one, if there is any, and a whole one. `None`: there is no room.
    pub fn take_ahead(&mut self) -> Option<(Option<u32>, u32)> {
        let whole = if self.taken > 0 { self.free.pop()? } else { return None };
        self.taken -= 1;
        Some((self.free_small.pop(), whole))
    }

    /// Stores a page in a free slot; the last store decides.
    pub fn put(&mut self, head: &Head, page: &[u8; PAGE]) -> Result<Stored, Full> {
        let small = if is_small(page) { self.free_small.pop() } else { None };
        let slot = small.or_else(|| self.free.pop()).ok_or(Full)?;
        let stored = store(&self.segment, slot, page);
        self.name(head, &stored);
        Ok(stored)
    }

    /// What is stored in a slot counts from here on as the page that the head names.
    pub fn name(&self, head: &Head, stored: &Stored) {
        let bytes = encode(self.segment.incarnation(), head, stored.crc);
        self.segment.set_head(stored.slot, &bytes);
    }

    /// What is stored in a slot is not what it should be: it gets a CRC that it has not.
    pub fn spoil(&self, head: &Head, stored: &Stored) {
        let bytes = encode(self.segment.incarnation(), head, !stored.crc);
        self.segment.set_head(stored.slot, &bytes);
    }

    /// What a slot holds is not to be used from here on.
    pub fn name_lost(&mut self, slot: u32, head: &Head) {
        self.segment
            .set_head(slot, &encode(self.segment.incarnation(), head, 0));
    }

    /// A page that was stored with `stamp` is not wanted any more.
    pub fn free(&mut self, slot: u32, stamp: u64) {
        self.segment.clear_head(slot);
        match stamp <= self.carried {
            true => self.held.push(slot),
            false => self.give_back(slot),
        }
    }

    /// A slot without a head is free.
    pub fn give_back(&mut self, slot: u32) {
        match self.segment.is_small(slot) {
            true => self.free_small.push(slot),
            false => self.free.push(slot),
        }
    }

    /// A checkpoint carries over what was stored up to `stamp`.
    pub fn carry(&mut self, stamp: u64) {
        self.carry_done();
        self.carried = stamp;
    }

    /// The checkpoint has written what it carries over.
    pub fn carry_done(&mut self) {
        self.carried = 0;
        for slot in core::mem::take(&mut self.held) {
            self.give_back(slot);
        }
    }

    /// What a slot's head says.
    pub fn found(&self, slot: u32) -> Found {
        found(&self.segment, slot)
    }

    /// The head of a page that is damaged; if the head is damaged too, what the index knows.
    pub fn head_or(&self, key: Key, placed: &Placed) -> Head {
        match self.found(placed.slot) {
            Found::Page(head, _) if head.key == key => head,
            _ => Head {
                first: placed.first,
                ..unknown(key, placed.based, placed.stamp)
            },
        }
    }
}

/// A page in a slot that has no head yet, or has just got one.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// Which.
    pub slot: u32,
    /// CRC-32C of what the slot has of the page.
    crc: u32,
    /// The page is zeros behind its first quarter.
    pub small: bool,
}

impl Stored {
    /// A page that stands in a slot.
    pub fn there(segment: &Segment, slot: u32, page: &[u8; PAGE]) -> Stored {
        Stored {
            slot,
            crc: checksum(segment, slot, page),
            small: segment.is_small(slot) || is_small(page),
        }
    }
}

/// Stores a page in a free slot, which stays free.
pub fn store(segment: &Segment, slot: u32, page: &[u8; PAGE]) -> Stored {
    segment.store_page(slot, page);
    Stored::there(segment, slot, page)
}

/// Loads the page that was placed. `None`: it or its head is not what its checksum says, or it stands there no more. Whoever
/// does not hold the table and is not protected from others asks again with it before that is believed.
pub fn load(segment: &Segment, key: Key, placed: &Placed, page: &mut [u8; PAGE]) -> Option<Head> {
    segment.load_page(placed.slot, page);
    match found(segment, placed.slot) {
        Found::Page(head, crc) if head.key == key && head.stamp == placed.stamp && !head.damaged => {
            (crc == checksum(segment, placed.slot, page)).then_some(head)
        }
        _ => None,
    }
}

/// What a slot's head says.
pub fn found(segment: &Segment, slot: u32) -> Found {
    decode(segment.incarnation(), &segment.head(slot))
}

fn encode(incarnation: u64, head: &Head, crc: u32) -> [u8; HEAD] {
    let mut bytes = [0; HEAD];
    bytes[8..16].copy_from_slice(&head.key.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&head.key.1.to_le_bytes());
    bytes[24..32].copy_from_slice(&head.base.to_le_bytes());
    bytes[32..36].copy_from_slice(&head.version.to_le_bytes());
    bytes[36..40].copy_from_slice(&head.base_crc.to_le_bytes());
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    let flags = if head.damaged { DAMAGED } else { 0 };
    bytes[44..48].copy_from_slice(&flags.to_le_bytes());
    bytes[48..56].copy_from_slice(&head.stamp.to_le_bytes());
    bytes[56..64].copy_from_slice(&head.first.to_le_bytes());
    let check = crc64::seeded(incarnation, &bytes[8..]).max(1);
    bytes[..8].copy_from_slice(&check.to_le_bytes());
    bytes
}

fn decode(incarnation: u64, bytes: &[u8; HEAD]) -> Found {
    let half = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    let word = |i: usize| u64::from(half(i)) | u64::from(half(i + 4)) << 32;
    match word(0) {
        0 => Found::Free,
        check if check != crc64::seeded(incarnation, &bytes[8..]).max(1) => Found::Damaged,
        _ => {
            let head = Head {
                key: (word(8), word(16)),
                base: word(24),
                base_crc: half(36),
                version: half(32),
                damaged: half(44) & DAMAGED != 0,
                stamp: word(48),
                first: word(56),
            };
            Found::Page(head, half(40))
        }
    }
}
