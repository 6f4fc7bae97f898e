//! What is wrong with a copy of a metablock on the device (SPEC S-3.2, S-4.3).

use core::fmt;
use keepfs_codes::crc64;
use keepfs_format::map::MapEntry;
use keepfs_format::{MetaId, PAGE};
use keepfs_pool::Pool;
use keepfs_vault::arena;

/// Bytes of a sector, the unit that a device does not tear.
const SECTOR: usize = 512;

/// What is wrong with a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// The device cannot read it.
    Unreadable,
    /// Its bytes do not have the checksum of the map entry.
    Checksum,
    /// They do, but the header is not that of this metablock in this life.
    Header,
    /// There stands another metablock of this pool.
    Holds(MetaId),
    /// No page has what was committed (S-4.8).
    Lost,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Unreadable => f.write_str("cannot be read"),
            Flaw::Checksum => f.write_str("has a wrong checksum"),
            Flaw::Header => f.write_str("has the header of another life or pool"),
            Flaw::Holds(id) => write!(f, "holds {id}"),
            Flaw::Lost => f.write_str("does not have what was committed, which is lost"),
        }
    }
}

/// A copy that was read around.
#[derive(Clone, Copy, Debug)]
pub struct BadCopy {
    /// Whose copy it is according to the map.
    pub id: MetaId,
    /// The page that the map names.
    pub page: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// The copies of a metablock as they were found.
#[derive(Default)]
pub struct AtRest {
    /// What stands in one that is good.
    pub right: Option<arena::Copy>,
    /// How many are good.
    pub good: u32,
    /// The bad ones.
    pub bad: Vec<Found>,
}

/// A bad copy with what was read.
pub struct Found {
    /// Which, and what is wrong.
    pub what: BadCopy,
    /// The first or the second.
    pub copy: u8,
    /// What was read.
    pub bytes: arena::Copy,
}

/// Copies of a metablock that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopiesSeen {
    /// How many.
    pub read: u32,
    /// How many of them were bad.
    pub bad: u32,
}

/// What is wrong with the bytes of a copy.
pub fn judge(pool: &Pool, id: MetaId, entry: &MapEntry, bytes: &[u8; PAGE]) -> Result<(), Flaw> {
    let whole = crc64::full(bytes) == entry.crc.get();
    if whole && pool.names_itself(id, entry, bytes) {
        return Ok(());
    }
    Err(match pool.metablock_in(bytes) {
        _ if entry.is_lost() => Flaw::Lost,
        Some(other) if other != id => Flaw::Holds(other),
        _ if whole => Flaw::Header,
        _ => Flaw::Checksum,
    })
}

/// Whether a page that begins with another metablock's header has parts of two writes: sectors behind it that are those of
/// the right copy, zeros aside, which whoever has the page before may have left, too (S-18.5).
pub fn is_torn(right: &[u8; PAGE], found: &[u8; PAGE]) -> bool {
    let sectors = right.as_chunks::<SECTOR>().0.iter().zip(found.as_chunks::<SECTOR>().0);
    sectors
        .skip(1)
        .any(|(right, found)| right == found && right != &[0; SECTOR])
}
