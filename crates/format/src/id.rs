//! Names of things: pool ids and metablock ids (SPEC S-3.1).

use core::fmt;

/// The random identity of a pool, in the byte order of the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PoolId(pub [u8; 16]);

impl PoolId {
    /// The four bytes that stand in every metablock header (S-3.2).
    pub fn tag(self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }
}

/// As UUIDs are written (RFC 9562).
impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// A family of metablocks (S-3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Space {
    /// Directory, block map and xattr nodes.
    Nodes = 1,
    /// Inodes, 15 a metablock.
    Inodes = 2,
    /// The page bitmap.
    Pages = 3,
    /// Bitmap of the indices of [`Space::Nodes`].
    NodeNumbers = 4,
    /// Bitmap of inode numbers.
    InodeNumbers = 5,
    /// Bitmap of inode numbers on the hidden list.
    Orphans = 6,
    /// Extra references of data pages.
    Shares = 7,
    /// Counters of the pool.
    Totals = 8,
    /// Where metadata lives.
    Homes = 9,
}

impl Space {
    /// All spaces that have a root in the superblock.
    pub const ALL: [Space; 9] = [
        Space::Nodes,
        Space::Inodes,
        Space::Pages,
        Space::NodeNumbers,
        Space::InodeNumbers,
        Space::Orphans,
        Space::Shares,
        Space::Totals,
        Space::Homes,
    ];

    /// The space with this number.
    pub fn of(number: u8) -> Option<Space> {
        Space::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// The id of a metablock: space in the top 8 bits, index below (S-3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetaId(pub u64);

/// The bits of a [`MetaId`] that hold the index.
const INDEX_MASK: u64 = (1 << 56) - 1;
/// Set in the space byte of map pages.
const MAP_BIT: u8 = 0x80;

impl MetaId {
    /// Metablock `index` of `space`. The index is below 2^56; higher bits are dropped.
    pub const fn new(space: Space, index: u64) -> MetaId {
        MetaId(((space as u64) << 56) | (index & INDEX_MASK))
    }

    /// Map page `number` of `level` of the map of `space` (S-4.1).
    pub const fn map(space: Space, level: u8, number: u64) -> MetaId {
        MetaId((((space as u64) | MAP_BIT as u64) << 56) | ((level as u64) << 48) | (number & ((1 << 48) - 1)))
    }

    /// The index within the space.
    pub const fn index(self) -> u64 {
        self.0 & INDEX_MASK
    }

    /// The space, if the id is that of an ordinary metablock.
    pub fn space(self) -> Option<Space> {
        Space::of((self.0 >> 56) as u8)
    }

    /// Space, level and number, if the id is that of a map page.
    pub fn as_map(self) -> Option<(Space, u8, u64)> {
        let top = (self.0 >> 56) as u8;
        if top & MAP_BIT == 0 {
            return None;
        }
        Some((
            Space::of(top & !MAP_BIT)?,
            (self.0 >> 48) as u8,
            self.0 & ((1 << 48) - 1),
        ))
    }
}

impl fmt::Debug for MetaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.as_map(), self.space()) {
            (Some((space, level, number)), _) => write!(f, "map:{space:?}/{level}/{number}"),
            (None, Some(space)) => write!(f, "{space:?}:{}", self.index()),
            (None, None) => write!(f, "metablock:{:#x}", self.0),
        }
    }
}

impl fmt::Display for MetaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
