//! The superblock (SPEC section 2).

use crate::le::{I64, U32, U64};
use crate::map::MapEntry;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `KEEPFS`, a zero and the major version.
pub const MAGIC: [u8; 8] = *b"KEEPFS\0\x01";
/// Version of the format.
pub const VERSION: u32 = 1;
/// State: unmounted properly.
pub const CLEAN: u32 = 0x7E11_C0DE;
/// State: in use, or crashed.
pub const OPEN: u32 = 0x81EE_3F21;
/// Number of slots.
pub const SLOTS: usize = 4;
/// Smallest pool, pages.
pub const PAGES_MIN: u64 = 512;
/// Largest pool, pages.
pub const PAGES_MAX: u64 = 1 << 40;
/// Feature of incompat: [`Superblock::protect`] is told (S-2.6).
pub const INCOMPAT_PROTECT: u64 = 1;
/// Feature of incompat: the pool has a history (S-2.7).
pub const INCOMPAT_HISTORY: u64 = 2;
/// Feature of incompat: a pool for tests, faults may be injected into it (S-2.8).
pub const INCOMPAT_TEST: u64 = 4;
/// Feature of incompat: TOTALS are striped (S-2.10).
pub const INCOMPAT_STRIPES: u64 = 8;
/// Feature of incompat: the pool has grown (S-2.15).
pub const INCOMPAT_GROWN: u64 = 16;
/// All features of incompat that there are.
pub const INCOMPAT_KNOWN: u64 = INCOMPAT_PROTECT | INCOMPAT_HISTORY | INCOMPAT_TEST | INCOMPAT_STRIPES | INCOMPAT_GROWN;
/// Feature of ro_compat: the pool has a block of multi-mount protection (S-2.12).
pub const RO_COMPAT_MMP: u64 = 1;
/// Feature of ro_compat: all pages have their room for ever (S-2.17).
pub const RO_COMPAT_PREALLOCATED: u64 = 2;
/// Feature of ro_compat: multi-mount protection is on, whatever becomes of the block (S-2.20).
pub const RO_COMPAT_MMP_ON: u64 = 4;
/// All features of ro_compat that there are.
pub const RO_COMPAT_KNOWN: u64 = RO_COMPAT_MMP | RO_COMPAT_PREALLOCATED | RO_COMPAT_MMP_ON;
/// Offset of the CRC.
pub const CRC_OFFSET: usize = 4088;

/// Root of the map of one space (S-4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Root {
    /// Where the top map page lives.
    pub entry: MapEntry,
    /// Number of levels; 0 = nothing is live.
    pub height: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// The superblock, field by field as in S-2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-2.2 is the text; the names are its names.
pub struct Superblock {
    pub magic: [u8; 8],
    pub version: U32,
    pub meta_copies: U32,
    pub pool: [u8; 16],
    pub label: [u8; 64],
    pub pages: U64,
    pub generation: U64,
    pub incarnation: U64,
    pub seq: U64,
    pub log_start: U64,
    pub log_pages: U64,
    pub log_seq: U64,
    pub group: U64,
    pub chain: U64,
    pub durable: U64,
    pub zone_pages: U64,
    pub zone_current: U64,
    pub zone_next: U64,
    pub chunk_pages: U32,
    pub state: U32,
    pub name_seed: [U64; 2],
    pub created_sec: I64,
    pub created_nsec: U32,
    /// Pages when the pool was made, if it has grown (S-2.15), else 0.
    pub made_pages: U32,
    pub incompat: U64,
    pub ro_compat: U64,
    pub roots: [Root; 10],
    pub protect: u8,
    pub reserved1: [u8; 7],
    pub history_start: U64,
    pub history_pages: U32,
    pub reserved2: [u8; CRC_OFFSET - 676],
    pub crc: U64,
}

const _: () = assert!(size_of::<Root>() == 40);
const _: () = assert!(core::mem::offset_of!(Superblock, roots) == 256);
const _: () = assert!(core::mem::offset_of!(Superblock, history_start) == 664);
const _: () = assert!(core::mem::offset_of!(Superblock, crc) == CRC_OFFSET);
const _: () = assert!(size_of::<Superblock>() == crate::PAGE);

impl Superblock {
    /// All zeros but the magic and version.
    pub fn blank() -> Superblock {
        let mut sb = Superblock::new_zeroed();
        sb.magic = MAGIC;
        sb.version = VERSION.into();
        sb
    }

    /// The number of pages that places the slots: of a pool that has grown that which it was made with (S-2.15).
    pub fn slots_by(&self) -> u64 {
        match self.made_pages.get() {
            0 => self.pages.get(),
            made => made.into(),
        }
    }

    /// The page of a slot of this pool.
    pub fn slot_page(&self, slot: usize) -> u64 {
        slot_page(slot, self.slots_by())
    }

    /// Whether what is said of growth fits together (S-2.15).
    pub fn growth_is_right(&self) -> bool {
        let (made, pages) = (u64::from(self.made_pages.get()), self.pages.get());
        match self.incompat.get() & INCOMPAT_GROWN != 0 {
            true => (PAGES_MIN..pages).contains(&made),
            false => made == 0,
        }
    }
}

/// The page of slot `slot` in a pool of `pages` pages (S-2.1).
pub const fn slot_page(slot: usize, pages: u64) -> u64 {
    pages / 4 * (slot as u64 % 4) + (pages % 4) * (slot as u64 % 4) / 4
}

/// The slots of a superblock of generation `generation`: the deciding one, then its copy (S-2.1).
pub const fn slots_of(generation: u64) -> [usize; 2] {
    [(generation % 2) as usize, 2 + (generation % 2) as usize]
}
