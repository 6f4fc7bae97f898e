//! Block map nodes and page entries (SPEC section 7).

use crate::le::{U32, U64};
use crate::metablock::HEADER;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Entries of a node.
pub const FANOUT: u64 = 254;
/// Greatest height of a tree.
pub const HEIGHT_MAX: u8 = 7;
/// Greatest size of a file, bytes.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Flag: the page holds data.
pub const WRITTEN: u16 = 1;
/// Flag: allocated, reads as zeros.
pub const UNWRITTEN: u16 = 2;
/// Flag: its data could not be written; reading gives EIO.
pub const LOST: u16 = 4;

/// Where one page of a file lives (S-7.2). All zeros is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PageEntry {
    /// Page number in the low 48 bits, flags above.
    pub page_and_flags: U64,
    /// CRC-32C of the 4096 bytes.
    pub crc: U32,
    /// Low bits of the inode's version when it was written.
    pub version: U32,
}

const _: () = assert!(size_of::<PageEntry>() == 16);
const _: () = assert!(HEADER + FANOUT as usize * 16 <= crate::PAGE);

impl PageEntry {
    /// A hole.
    pub const HOLE: PageEntry = PageEntry {
        page_and_flags: U64::ZERO,
        crc: U32::ZERO,
        version: U32::ZERO,
    };

    /// An entry for `page` with `flags`.
    pub fn new(page: u64, flags: u16, crc: u32, version: u32) -> PageEntry {
        PageEntry {
            page_and_flags: ((u64::from(flags) << 48) | (page & ((1 << 48) - 1))).into(),
            crc: crc.into(),
            version: version.into(),
        }
    }

    /// The device page.
    pub fn page(&self) -> u64 {
        self.page_and_flags.get() & ((1 << 48) - 1)
    }

    /// The flags.
    pub fn flags(&self) -> u16 {
        (self.page_and_flags.get() >> 48) as u16
    }

    /// Whether it is a hole.
    pub fn is_hole(&self) -> bool {
        self.page_and_flags.get() == 0
    }
}

/// A child of an inner node (S-7.1). All zeros is a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Child {
    /// Node id, or 0.
    pub id: U64,
    /// Its generation.
    pub generation: U32,
    /// Zero.
    pub reserved: U32,
}

const _: () = assert!(size_of::<Child>() == 16);

/// Offset of entry `slot` in a node.
pub const fn entry_offset(slot: u64) -> usize {
    HEADER + (slot % FANOUT) as usize * 16
}

/// Pages that one entry of a node of `level` covers: 254^(level−1), saturating.
pub const fn coverage(level: u8) -> u64 {
    FANOUT.saturating_pow(level.saturating_sub(1) as u32)
}
