//! What bytes mean: ids, superblock, metablocks, inodes, directories, block maps and log records, as docs/SPEC.md says; and how names,
//! which are bytes, are told ([`shown`]).
//!
//! Types and const-checked layouts; no behaviour beyond encoding, and beyond the [`rules`] that one structure obeys by itself. Every struct here is a sequence of bytes without
//! padding (alignment 1), so it can be read from and written to any offset.

pub mod bitmap;
pub mod blockmap;
pub mod dir;
pub mod history;
pub mod id;
pub mod inode;
pub mod map;
pub mod metablock;
pub mod mmp;
pub mod oplog;
pub mod plog;
pub mod rules;
pub mod shown;
pub mod superblock;
pub mod xattr;

pub use id::{MetaId, PoolId, Space};
pub use metablock::{Header, Kind};
pub use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a page and of a metablock.
pub const PAGE: usize = 4096;

/// The bytes of one page.
pub type Page = [u8; PAGE];

/// Little-endian integers without alignment, as they stand on the device.
pub mod le {
    pub use zerocopy::little_endian::{I32, I64, U16, U32, U64};
}
