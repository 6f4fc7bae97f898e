//! The header that every metablock begins with (SPEC S-3.2).

use crate::id::MetaId;
use crate::le::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `KMB1`.
pub const MAGIC: u32 = 0x3142_4D4B;
/// Bytes of the header.
pub const HEADER: usize = 32;

/// What a metablock holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// 15 inodes.
    Inodes = 1,
    /// Directory entries.
    DirLeaf = 2,
    /// Directory index.
    DirIndex = 3,
    /// Block map node.
    BlockMap = 4,
    /// Extended attributes.
    Xattr = 5,
    /// A bitmap of numbers in use.
    Bitmap = 6,
    /// Extra references of data pages.
    Shares = 7,
    /// Counters.
    Totals = 8,
    /// Where metadata lives.
    Homes = 9,
    /// Map page.
    Map = 10,
}

impl Kind {
    /// Whether metablocks of this kind belong to an inode: the nodes (S-3.2).
    pub const fn is_owned(self) -> bool {
        matches!(self, Kind::DirLeaf | Kind::DirIndex | Kind::BlockMap | Kind::Xattr)
    }

    /// The kind with this number.
    pub fn of(number: u8) -> Option<Kind> {
        use Kind::*;
        [
            Inodes, DirLeaf, DirIndex, BlockMap, Xattr, Bitmap, Shares, Totals, Homes, Map,
        ]
        .into_iter()
        .find(|k| *k as u8 == number)
    }
}

/// The first 32 bytes of every metablock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: U32,
    /// A [`Kind`].
    pub kind: u8,
    /// Meaning depends on the kind.
    pub level: u8,
    /// Zero.
    pub reserved: U16,
    /// The metablock's own id.
    pub id: U64,
    /// Inode number that owns it, or 0.
    pub owner: U64,
    /// Which life of the id.
    pub generation: U32,
    /// [`crate::PoolId::tag`].
    pub pool: U32,
}

const _: () = assert!(size_of::<Header>() == HEADER);

impl Header {
    /// A header as at birth.
    pub fn new(pool_tag: u32, id: MetaId, kind: Kind, level: u8, owner: u64, generation: u32) -> Header {
        Header {
            magic: MAGIC.into(),
            kind: kind as u8,
            level,
            reserved: 0.into(),
            id: id.0.into(),
            owner: owner.into(),
            generation: generation.into(),
            pool: pool_tag.into(),
        }
    }
}
