//! What the auditor is shown of a transaction that is about to commit.

use keepfs_format::plog::Record;
use keepfs_format::{Kind, MetaId};

/// Whether a metablock begins or ends with the transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was there and stays.
    Stays,
    /// A node that is born: before it was zeros.
    Born,
    /// A node that dies: what it names is lost with it.
    Dies,
    /// Both: nothing is left of it.
    Passes,
}

/// A metablock that the transaction touched.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Which.
    pub id: MetaId,
    /// Its kind (S-3.2).
    pub kind: Kind,
    /// The inode it belongs to, or 0.
    pub owner: u64,
    /// Whether it begins or ends.
    pub fate: Fate,
}

/// How bytes changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nature {
    /// Bytes that belong to the transaction.
    Bytes,
    /// Bits of one byte: `old` and `new` have only those that change.
    Bits,
}

/// A change of a metablock.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Which of the transaction's metablocks.
    pub block: usize,
    /// Where in it, bytes.
    pub offset: usize,
    /// How.
    pub nature: Nature,
    /// What was there.
    pub old: &'a [u8],
    /// What is there.
    pub new: &'a [u8],
}

/// A transaction before it commits. What it changed lies still; bits that others change at the same moment are
/// never asked for.
pub trait Transaction {
    /// Number of metablocks that it touched.
    fn count(&self) -> usize;
    /// The `index`-th.
    fn block(&self, index: usize) -> Block;
    /// Whether any of them dies.
    fn dies(&self) -> bool {
        (0..self.count()).any(|index| self.block(index).fate == Fate::Dies)
    }
    /// All changes, in order.
    fn changes(&self) -> &[Change<'_>];
    /// Copies bytes of a metablock as they are now.
    fn load(&self, block: usize, offset: usize, buf: &mut [u8]);
    /// Single bytes of a metablock as they are now, by their offsets in it (modulo its size).
    fn bytes(&self, block: usize) -> impl Fn(usize) -> u8;
    /// Ranges (from, to) of a metablock that will be logged, ascending.
    fn ranges(&self, block: usize) -> &[(u16, u16)];
    /// The records for the log, updates left out.
    fn records(&self) -> &[Record];
    /// The operations for the operation log (S-12.3), if it is kept.
    fn operations(&self) -> Option<&[u8]>;
    /// Pages that the accounting of free space in memory will take as used.
    fn pages_used(&self) -> u64;
}
