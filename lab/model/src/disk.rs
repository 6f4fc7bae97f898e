//! What is on the device (S-2, S-8): pages, the ring of the log, two superblocks; and the writes to it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::tree::{File, Rec, Tree};

/// A page's number.
pub type Page = u8;
/// Content: each change makes another one; 0 is zeros.
pub type Val = u8;

/// Pages of a chunk, where chunks have more than one.
pub const CHUNK: u8 = 2;

/// What a page has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    /// Nothing that was written, or discarded.
    Blank,
    /// Half a write.
    Torn,
    /// A file's data.
    Data(Val),
    /// The same, and it cannot be read until it is written.
    Bad(Val),
    /// The same, and a bit of it is wrong until it is written: its sum tells.
    Wrong(Val),
    /// The metadata of a checkpoint, without what lies elsewhere.
    Meta(Arc<Tree>),
    /// The metablock of the last file, where it lies by itself.
    Leaf(File),
}

/// A page of the log; the last one of a group says so.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LogPage {
    /// Where, counted without the ring's end.
    pub pos: u8,
    /// The number of its group.
    pub number: u8,
    /// The incarnation.
    pub life: u8,
    /// The sum of the page before it, or the superblock's chain.
    pub chain: u32,
    /// Generation of the superblock in force.
    pub base: u8,
    /// Highest group known to be flushed.
    pub durable: u8,
    /// Last transaction in the group.
    pub seq: u8,
    /// The group ends with it.
    pub last: bool,
    /// Its part of the records.
    pub recs: Vec<Rec>,
}

/// A superblock. It stands for the map and HOMES, too.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Super {
    /// Counts checkpoints.
    pub generation: u8,
    /// The incarnation.
    pub life: u8,
    /// Last transaction in the checkpoint.
    pub seq: u8,
    /// Where the metadata lies.
    pub home: Page,
    /// Its sum.
    pub sum: u32,
    /// Where the last file's metablock lies, and its sum, where it lies by itself; [`LOST`]: it is lost.
    pub leaf: Option<(Page, u32)>,
    /// First pages of the chunks, where they have more than one page.
    pub chunks: Vec<Page>,
    /// Where the log begins.
    pub pos: u8,
    /// With which group.
    pub group: u8,
    /// The chain's beginning.
    pub chain: u32,
    /// Highest group known to be flushed.
    pub durable: u8,
}

/// The sum that a map entry tells of a metablock that is lost (S-4.8).
pub const LOST: u32 = 0x4B45_4550;

/// The chain's beginning in the first log, and in that of a recovery (S-9.14).
pub const FRESH: u32 = 7;

/// Makes the chain of a log that begins anew out of the one before (S-10.7).
pub const ANEW: u32 = 0x5555_0000;

/// The pages of chunks, as bits.
pub fn bits(chunks: &[Page]) -> u16 {
    chunks.iter().fold(0, |bits, start| bits | ((1 << CHUNK) - 1) << start)
}

impl Super {
    /// Pages that no file may have, as bits.
    pub fn system(&self) -> u16 {
        let alone = 1 << self.home | self.leaf.map_or(0, |leaf| 1 << leaf.0);
        match self.chunks.is_empty() {
            true => alone,
            false => bits(&self.chunks),
        }
    }

    /// Whether the checkpoint has metadata there.
    pub fn uses(&self, page: Page) -> bool {
        self.home == page || self.leaf.is_some_and(|leaf| leaf.0 == page)
    }
}

/// A write on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Write {
    /// To a page.
    Page(Page, Cell),
    /// To the log.
    Log(Arc<LogPage>),
    /// To a superblock's slot.
    Super(Arc<Super>, usize),
}

/// What is durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// The pages.
    pub pages: Vec<Cell>,
    /// The log.
    pub ring: Vec<Option<Arc<LogPage>>>,
    /// The superblocks.
    pub supers: [Option<Arc<Super>>; 2],
    /// Places of the log that went bad, as bits, until they are written.
    pub rotten: u16,
    /// The page of the log far from its end that tells what is durable: life, generation of the superblock, highest group.
    pub far: Option<(u8, u8, u8)>,
    /// The log was bad up to its end; nothing tells that from pages that never arrived.
    pub wiped: bool,
    /// Pages of metadata that cannot be read, as bits, until they are written, or can be read again. The page of the
    /// metadata stands for several metablocks: of them it is a bitmap.
    pub unread: u16,
}

impl Disk {
    /// The write arrives.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Page(p, cell) => {
                self.pages[*p as usize] = cell.clone();
                self.unread &= !(1 << p);
            }
            Write::Log(page) => {
                let at = page.pos as usize % self.ring.len();
                self.ring[at] = Some(page.clone());
                self.rotten &= !(1 << at);
            }
            Write::Super(sb, slot) => self.supers[*slot] = Some(sb.clone()),
        }
    }

    /// Whether the page has this data, or whoever reads it is told that it is bad: then it is one file's loss.
    pub fn has(&self, page: Page, val: Val) -> bool {
        self.passes(page, val) || self.pages[page as usize] == Cell::Wrong(val)
    }

    /// Whether the page has this data as its sum tells, or cannot be read (S-9.3).
    pub fn passes(&self, page: Page, val: Val) -> bool {
        self.pages[page as usize] == Cell::Data(val) || self.is_bad(page)
    }

    /// Whether this page of metadata cannot be read.
    pub fn is_unread(&self, page: Page) -> bool {
        self.unread >> page & 1 == 1
    }

    /// Whether it cannot be read.
    pub fn is_bad(&self, page: Page) -> bool {
        matches!(self.pages[page as usize], Cell::Bad(_))
    }
}

/// A sum that tells contents apart.
pub fn sum<T: Hash>(of: &T) -> u32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as u32
}
