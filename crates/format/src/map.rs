//! Map pages (metablock → device pages) and HOMES metablocks (SPEC section 4).

use crate::le::{U16, U32, U64};
use crate::metablock::HEADER;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries of a map page.
pub const FANOUT: u64 = 127;
/// Greatest height of a map.
pub const HEIGHT_MAX: u8 = 8;

/// State of a map entry: never used.
pub const NEVER: u8 = 0;
/// State of a map entry: the metablock exists.
pub const LIVE: u8 = 0x5A;
/// State of a map entry: it existed; the generation is kept.
pub const DEAD: u8 = 0xA5;

/// In place of the CRC-64 of a live entry: the content of the metablock is lost (S-4.8).
pub const LOST: u64 = u64::from_le_bytes(*b"KEEPLOST");

/// Where a metablock lives (S-4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MapEntry {
    /// First page.
    pub first: U64,
    /// Second page, 0 = none.
    pub second: U64,
    /// CRC-64 of the 4096 bytes.
    pub crc: U64,
    /// Which life of the id.
    pub generation: U32,
    /// A [`crate::Kind`].
    pub kind: u8,
    /// [`NEVER`], [`LIVE`] or [`DEAD`].
    pub state: u8,
    /// Zero.
    pub reserved: U16,
}

const _: () = assert!(size_of::<MapEntry>() == 32);
const _: () = assert!(HEADER + FANOUT as usize * size_of::<MapEntry>() == crate::PAGE);

impl MapEntry {
    /// Whether the content is lost, if no page of it has this CRC all the same (S-4.8).
    pub fn is_lost(&self) -> bool {
        self.state == LIVE && self.crc.get() == LOST
    }
}

/// Offset of entry `slot` in a map page.
pub const fn entry_offset(slot: u64) -> usize {
    HEADER + (slot % FANOUT) as usize * size_of::<MapEntry>()
}

/// Chunks described by one HOMES metablock.
pub const CHUNKS: usize = 100;
/// Most pages of a chunk.
pub const CHUNK_PAGES_MAX: u32 = 256;

/// One chunk of metadata pages (S-4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Chunk {
    /// First page in the low 48 bits, pages − 1 above; 0: the entry is unused.
    pub start_and_len: U64,
    /// Which of its pages are used, least significant bit first.
    pub used: [u8; 32],
}

const _: () = assert!(size_of::<Chunk>() == 40);

/// Offset of chunk `slot` in a HOMES metablock.
pub const fn chunk_offset(slot: usize) -> usize {
    HEADER + (slot % CHUNKS) * size_of::<Chunk>()
}

impl Chunk {
    /// A chunk of `pages` (1..=256) pages from `start` with the pages of `used` in use.
    pub fn new(start: u64, pages: u32, used: [u8; 32]) -> Chunk {
        Chunk {
            start_and_len: (start | ((u64::from(pages).max(1) - 1) << 48)).into(),
            used,
        }
    }

    /// First page, 0 = no chunk.
    pub fn start(&self) -> u64 {
        self.start_and_len.get() & ((1 << 48) - 1)
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        ((self.start_and_len.get() >> 48) & 0xff) as u32 + 1
    }
}
