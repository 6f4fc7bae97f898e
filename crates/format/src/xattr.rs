//! Extended attributes (SPEC S-7.4).

use crate::le::{U16, U64};
use crate::metablock::HEADER;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Payload bytes of a metablock of the chain.
pub const PAYLOAD: usize = crate::PAGE - PAYLOAD_OFFSET;
/// Where the payload begins.
pub const PAYLOAD_OFFSET: usize = HEADER + size_of::<ChainHead>();
/// Most bytes of all attributes of an inode, heads included.
pub const TOTAL_MAX: usize = 32 * 1024;

/// Namespaces in the order of their numbers, as name prefixes. The ACL ones are whole names.
pub const NAMESPACES: [&str; 5] = [
    "user.",
    "trusted.",
    "security.",
    "system.posix_acl_access",
    "system.posix_acl_default",
];

/// What follows the header of a metablock of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ChainHead {
    /// Next metablock, 0 = last.
    pub next: U64,
    /// Payload bytes in this one.
    pub used: U16,
    /// Zero.
    pub reserved: [u8; 6],
}

/// Head of one attribute; name and value follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AttrHead {
    /// Bytes of the name without its prefix.
    pub name_len: u8,
    /// Index into [`NAMESPACES`].
    pub namespace: u8,
    /// Bytes of the value.
    pub value_len: U16,
}

const _: () = assert!(PAYLOAD == 4048);
const _: () = assert!(size_of::<AttrHead>() == 4);
