//! Which metablock is meant, and whether a header is its.

use core::mem::offset_of;
use keepfs_format::metablock::{HEADER, MAGIC};
use keepfs_format::{FromBytes, Header, Kind, MetaId, PAGE, Space, inode};
use keepfs_pool::Error;

/// What a caller expects of a metablock; the door refuses another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref {
    /// Which.
    pub id: MetaId,
    /// Of what kind.
    pub kind: Kind,
    /// Of which inode, or 0.
    pub owner: u64,
}

impl Ref {
    /// The metablock that holds inode `ino`.
    #[inline]
    pub const fn inode_block(ino: u64) -> Ref {
        Ref {
            id: inode::block_of(ino),
            kind: Kind::Inodes,
            owner: 0,
        }
    }

    /// A node of inode `owner`.
    #[inline]
    pub const fn node(id: MetaId, kind: Kind, owner: u64) -> Ref {
        Ref { id, kind, owner }
    }

    /// A metablock of inodes.
    #[inline]
    pub const fn inodes(id: MetaId) -> Ref {
        Ref::shared(id, Kind::Inodes)
    }

    /// A metablock that has no owner.
    #[inline]
    pub const fn shared(id: MetaId, kind: Kind) -> Ref {
        Ref { id, kind, owner: 0 }
    }
}

/// Kinds that a metablock of space NODES can have.
const NODE_KINDS: [Kind; 4] = [Kind::DirLeaf, Kind::DirIndex, Kind::BlockMap, Kind::Xattr];

/// The number of the kind in a metablock's header.
#[inline]
pub fn kind_in(bytes: &[u8; PAGE]) -> u8 {
    bytes[offset_of!(Header, kind)]
}

/// The metablock that a metablock's header names.
pub fn id_in(bytes: &[u8; PAGE]) -> MetaId {
    let word = bytes[offset_of!(Header, id)..].first_chunk();
    MetaId(word.map_or(0, |word| u64::from_le_bytes(*word)))
}

/// The kind that a header tells.
#[inline]
pub fn kind_of(id: MetaId, header: &Header) -> Result<Kind, Error> {
    let number = header.kind;
    Kind::of(number).ok_or_else(|| Error::Damaged(format!("{id} has the unknown kind {number} in its header")))
}

/// The kinds that metablock `id` can have.
pub fn kinds(id: MetaId) -> &'static [Kind] {
    match (id.as_map(), id.space()) {
        (Some(_), _) => &[Kind::Map],
        (_, Some(Space::Nodes)) => &NODE_KINDS,
        (_, Some(Space::Inodes)) => &[Kind::Inodes],
        (_, Some(Space::Shares)) => &[Kind::Shares],
        (_, Some(Space::Totals)) => &[Kind::Totals],
        (_, Some(Space::Homes)) => &[Kind::Homes],
        (_, Some(Space::Pages | Space::NodeNumbers | Space::InodeNumbers | Space::Orphans)) => &[Kind::Bitmap],
        (None, None) => &[],
    }
}

/// A header from its bytes.
#[inline]
pub fn header_in(bytes: &[u8; HEADER]) -> Result<Header, Error> {
    Header::read_from_bytes(bytes).map_err(|e| Error::Logic(e.to_string()))
}

/// Checks that a header is the one expected. `what` is wrong otherwise.
#[inline]
pub fn check_header(header: &Header, r: Ref, pool_tag: u32) -> Result<(), Error> {
    let right = header.magic.get() == MAGIC
        && header.id.get() == r.id.0
        && header.kind == r.kind as u8
        && header.owner.get() == r.owner
        && header.pool.get() == pool_tag;
    if right {
        return Ok(());
    }
    let what = format!(
        "{} was expected as {:?} of inode {}, but its header says kind {} of inode {} (id {})",
        r.id,
        r.kind,
        r.owner,
        header.kind,
        header.owner.get(),
        MetaId(header.id.get())
    );
    Err(Error::damaged(r.id, what))
}
