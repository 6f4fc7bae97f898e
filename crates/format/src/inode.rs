//! Inodes (SPEC section 5).

use crate::blockmap::{FILE_SIZE_MAX, PageEntry};
use crate::id::{MetaId, Space};
use crate::le::{I64, U16, U32, U64};
use crate::metablock::HEADER;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// State of an inode that exists.
pub const LIVE: u32 = 0x9A3C_5F17;
/// State of an inode that existed.
pub const DEAD: u32 = 0x65C3_A0E8;
/// `mode >> 12` of a directory (S-5.2).
pub const DIR: u8 = 0o04;
/// `mode >> 12` of a regular file.
pub const FILE: u8 = 0o10;
/// `mode >> 12` of a symlink.
pub const SYMLINK: u8 = 0o12;
/// Inodes of a metablock.
pub const PER_BLOCK: u64 = 15;
/// Bytes of an inode.
pub const SIZE: usize = 256;
/// Bytes of the body area.
pub const BODY: usize = 64;
/// Bytes of the xattr area.
pub const XATTR: usize = 40;
/// Page entries in a body of kind [`BODY_DIRECT`].
pub const DIRECT: u64 = 4;
/// Value of the field `xattr` when the attributes are in a chain of metablocks.
pub const XATTR_CHAIN: u16 = 0xFFFF;

/// Body: no data page.
pub const BODY_NONE: u8 = 0;
/// Body: the bytes themselves.
pub const BODY_INLINE: u8 = 1;
/// Body: four page entries.
pub const BODY_DIRECT: u8 = 2;
/// Body: a tree.
pub const BODY_TREE: u8 = 3;

/// A hole that is being made (S-5.8), the first bytes of the body area of a tree: pages `from .. to` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Hole {
    /// First page.
    pub from: U64,
    /// First page behind; both 0: there is none.
    pub to: U64,
}

/// Greatest value of [`Hole::to`].
pub const HOLE_END: u64 = FILE_SIZE_MAX.div_ceil(crate::PAGE as u64);

/// An inode, field by field as in S-5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-5.2 is the text; the names are its names.
pub struct Inode {
    pub state: U32,
    pub mode: U32,
    pub uid: U32,
    pub gid: U32,
    pub nlink: U32,
    pub rdev: U32,
    pub flags: U32,
    pub body: u8,
    pub height: u8,
    pub xattr: U16,
    pub size: U64,
    pub pages: U64,
    pub born: U64,
    pub cur: U64,
    pub atime: I64,
    pub mtime: I64,
    pub ctime: I64,
    pub btime: I64,
    pub atime_nsec: U32,
    pub mtime_nsec: U32,
    pub ctime_nsec: U32,
    pub btime_nsec: U32,
    pub parent: U64,
    pub entries: U64,
    pub root: U64,
    pub xattrs: U64,
    pub reserved: U64,
    pub body_area: [u8; BODY],
    pub xattr_area: [u8; XATTR],
}

const _: () = assert!(size_of::<Inode>() == SIZE);
const _: () = assert!(core::mem::offset_of!(Inode, body_area) == 152);
const _: () = assert!(core::mem::offset_of!(Inode, xattr_area) == 216);
const _: () = assert!(DIRECT as usize * size_of::<PageEntry>() == BODY);
const _: () = assert!(HEADER + PER_BLOCK as usize * SIZE <= crate::PAGE);

impl Inode {
    /// The pending hole (S-5.8); `None` if there is none.
    pub fn hole(&self) -> Option<Hole> {
        let (hole, _) = Hole::read_from_prefix(&self.body_area).unwrap_or_default();
        (self.body == BODY_TREE && hole != Hole::default()).then_some(hole)
    }

    /// Sets the pending hole of a tree, or ends it.
    pub fn set_hole(&mut self, hole: Option<Hole>) {
        if self.body == BODY_TREE {
            let hole = hole.unwrap_or_default();
            self.body_area[..size_of::<Hole>()].copy_from_slice(hole.as_bytes());
        }
    }
}

/// The metablock that holds inode `ino` (S-5.1).
pub const fn block_of(ino: u64) -> MetaId {
    MetaId::new(Space::Inodes, ino / PER_BLOCK)
}

/// The offset of inode `ino` in its metablock.
pub const fn offset_of(ino: u64) -> usize {
    HEADER + (ino % PER_BLOCK) as usize * SIZE
}

/// The inode that the byte at `offset` of metablock `block` belongs to.
pub const fn at(block: MetaId, offset: usize) -> u64 {
    block.index() * PER_BLOCK + (offset.saturating_sub(HEADER) / SIZE) as u64
}
