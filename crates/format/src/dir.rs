//! Directory leaves and indexes (SPEC section 6).

use crate::le::{U16, U32, U64};
use crate::metablock::HEADER;
use core::hash::Hasher;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Offset of the first entry of a leaf.
pub const FIRST: usize = 40;
/// State of an entry that counts.
pub const LIVE: u8 = 0x5A;
/// State of an entry that was removed.
pub const DEAD: u8 = 0xA5;
/// Longest name.
pub const NAME_MAX: usize = 255;
/// Children of an index.
pub const CHILDREN: usize = 256;
/// Greatest level of an index.
pub const LEVEL_MAX: u8 = 6;
/// Greatest local depth of a leaf.
pub const DEPTH_MAX: u8 = 8;
/// Cookie of `.`.
pub const COOKIE_DOT: u64 = 1;
/// Cookie of `..`.
pub const COOKIE_DOTDOT: u64 = 2;
/// Number of keys that share their 61 upper bits.
pub const TWINS: u64 = 8;

/// What follows the header of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct LeafHead {
    /// Offset of the first free byte.
    pub tail: U16,
    /// Live entries.
    pub live: U16,
    /// Bytes in dead entries.
    pub dead: U16,
    /// Zero.
    pub reserved: U16,
}

const _: () = assert!(HEADER + size_of::<LeafHead>() == FIRST);

/// The fixed part of an entry; the name follows, padded to a multiple of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EntryHead {
    /// Key and cookie (S-6.3).
    pub key: U64,
    /// Inode number.
    pub ino: U64,
    /// Low bits of the directory's version when it was made.
    pub version: U32,
    /// mode >> 12.
    pub kind: u8,
    /// Bytes of the name.
    pub name_len: u8,
    /// [`LIVE`] or [`DEAD`].
    pub state: u8,
    /// Zero.
    pub reserved: u8,
}

/// Bytes of the fixed part of an entry.
pub const ENTRY_HEAD: usize = 24;
const _: () = assert!(size_of::<EntryHead>() == ENTRY_HEAD);

/// Bytes that an entry with a name of `name_len` bytes takes.
pub const fn entry_size(name_len: usize) -> usize {
    (ENTRY_HEAD + name_len + 3) & !3
}

/// Offset of child `slot` in an index.
pub const fn child_offset(slot: usize) -> usize {
    HEADER + (slot % CHILDREN) * 8
}

/// The first of the eight keys that `name` may have (S-6.3).
pub fn name_key(seed: [u64; 2], name: &[u8]) -> u64 {
    let mut hasher = siphasher::sip::SipHasher24::new_with_keys(seed[0], seed[1]);
    hasher.write(name);
    ((hasher.finish() >> 1) & !(TWINS - 1)).max(TWINS)
}

/// The slot of an index of `level` that `key` goes through (S-6.4).
pub const fn slot_of(key: u64, level: u8) -> usize {
    (((key << 1) >> (56 - 8 * level as u32)) & 0xff) as usize
}
