//! The history: what was noticed and done, and small named records, in a region of its own (SPEC section 18).

mod damage;
mod event;
mod path;

pub use damage::{GIVEN_UP, Lasting, REPAIR, is_lost};
pub use event::{Event, SHOWN};
pub use path::{PATH_MAX, path_of};

use crate::le::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `KEEPHIS` and the layout's number.
pub const MAGIC: [u8; 8] = *b"KEEPHIS\x01";
/// Pages of the region, least and most; an even number.
pub const PAGES: core::ops::RangeInclusive<u32> = 4..=64;
/// Longest name of a record, bytes.
pub const NAME_MAX: usize = 32;
/// Name of the record with the last events (S-18.5).
pub const EVENTS: &str = "events";
/// Name of the record with the list of damages (S-18.6).
pub const DAMAGE: &str = "damage";

/// Head of a half (S-18.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-18.2 is the text; the names are its names.
pub struct Head {
    pub magic: [u8; 8],
    pub pool: [u8; 16],
    pub generation: U64,
    pub length: U32,
    pub reserved: [u8; 20],
    pub crc: U64,
}

/// Bytes of a [`Head`].
pub const HEAD: usize = size_of::<Head>();
/// Bytes of it that its CRC covers.
pub const HEAD_COVERED: usize = HEAD - 8;

const _: () = assert!(HEAD == 64);

/// A named record.
pub type Record = (String, Vec<u8>);

/// Bytes that a record takes (S-18.4).
pub fn size_of_record(name: &str, bytes: &[u8]) -> usize {
    1 + name.len() + 4 + bytes.len()
}

/// Encodes records (S-18.4).
pub fn encode<'r>(records: impl Iterator<Item = (&'r str, &'r [u8])>) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, bytes) in records {
        all.push(name.len() as u8);
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        all.extend_from_slice(bytes);
    }
    all
}

/// The records of a half; `None` if the bytes are not as S-18.4 says.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first_chunk()?;
        let (content, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let name = str::from_utf8(name)
            .ok()
            .filter(|n| (1..=NAME_MAX).contains(&n.len()))?;
        records.push((name.to_owned(), content.to_vec()));
        bytes = rest;
    }
    Some(records)
}

/// Takes bytes apart from the front.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self, len: usize) -> Option<String> {
        self.take(len).map(|text| String::from_utf8_lossy(text).into_owned())
    }
}

/// As much of a text as `most` bytes hold, cut between characters.
fn short(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
