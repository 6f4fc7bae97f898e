//! Log pages and records (SPEC section 8).

mod raw;
mod record;

pub use raw::{Raw, RawUpdate, Raws, raw};
pub use record::{DecodeError, RUN_MAX, Record, Run, decode, encode_update};

use crate::le::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `KPLG`.
pub const MAGIC: u32 = 0x474C_504B;
/// Flag: last page of its group.
pub const FLAG_LAST: u8 = 1;
/// Flag: all data of the group was flushed before it.
pub const FLAG_DATA_FLUSHED: u8 = 2;
/// Where the payload begins.
pub const PAYLOAD_OFFSET: usize = 48;
/// Most payload bytes of a page.
pub const PAYLOAD: usize = CRC_OFFSET - PAYLOAD_OFFSET;
/// Where the CRC stands.
pub const CRC_OFFSET: usize = 4088;

/// The head of a log page (S-8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-8.2 is the text; the names are its names.
pub struct PageHead {
    pub magic: U32,
    pub used: U16,
    pub flags: u8,
    pub reserved: u8,
    pub sequence: U64,
    pub group: U64,
    pub durable: U64,
    pub base: U64,
    pub seq: U64,
}

const _: () = assert!(size_of::<PageHead>() == PAYLOAD_OFFSET);
