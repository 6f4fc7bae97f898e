//! The pool that faults go into, with what its metablocks should hold, and how a fault is found.

use super::Dice;
use super::fault::Regions;
use super::lines::{self, Served};
use keepfs_codes::Protection;
use keepfs_format::bitmap::TOTALS;
use keepfs_format::{Kind, MetaId, PAGE, Space};
use keepfs_media::ram::RamDevice;
use keepfs_store::{Equations, Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions, Structure};
use std::sync::Arc;

/// Pages of a pool.
const PAGES: u64 = 4096;
/// Nodes of each kind.
const NODES: usize = 4;
/// Where legal changes begin: behind the header.
const BODY: usize = keepfs_format::metablock::HEADER;

/// A metablock and what it should hold.
pub struct Block {
    /// Which.
    pub r: Ref,
    /// What bytes put into it mean; `None`: nobody puts, the pool itself changes it.
    meaning: Option<Meaning>,
    /// Its content. Of one that the pool changes: when it was looked at last.
    pub right: Box<[u8; PAGE]>,
}

impl Block {
    /// Whether its bytes are known whatever the pool does.
    pub fn is_ours(&self) -> bool {
        self.meaning.is_some()
    }
}

/// How a fault is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finder {
    /// A scrub looks at the frame.
    Scrub,
    /// Somebody needs the metablock.
    Reader,
    /// A transaction writes to it.
    Writer,
    /// Everything is written to the device.
    Checkpoint,
    /// Frames are given to others.
    Eviction,
}

impl Finder {
    const ALL: [Finder; 5] = [
        Finder::Scrub,
        Finder::Reader,
        Finder::Writer,
        Finder::Checkpoint,
        Finder::Eviction,
    ];
}

/// A pool under fire.
pub struct Subject {
    /// It.
    pub store: Arc<Store>,
    /// Its device.
    pub device: Arc<RamDevice>,
    /// Its memory.
    pub regions: Regions,
    /// Its code.
    pub code: Protection,
    /// Its metablocks.
    pub blocks: Vec<Block>,
    /// Number of the last event that was read.
    heard: u64,
}

/// As text.
pub fn failed(error: impl core::fmt::Debug) -> String {
    format!("{error:?}")
}

fn options() -> StoreOptions {
    StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        audit: Equations::NONE,
        ..StoreOptions::default()
    }
}

impl Subject {
    /// A new pool with metablocks of all kinds. Errors: as text.
    pub fn new(code: Protection, dice: &mut Dice) -> Result<Subject, String> {
        let device = Arc::new(RamDevice::new(PAGES));
        let format = FormatOptions {
            protect: code,
            test: true,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &format).map_err(failed)?;
        let store = Store::open(device.clone(), &options()).map_err(failed)?;
        let blocks = made(&store).map_err(failed)?;
        let mut subject = Subject {
            regions: Regions::find(code).map_err(failed)?,
            store,
            device,
            code,
            blocks,
            heard: 0,
        };
        for at in 0..subject.blocks.len() {
            subject.look(at)?;
            subject.put(at, 8, dice)?;
        }
        subject.store.checkpoint().map_err(failed)?;
        Ok(subject)
    }

    /// Where a metablock lies; it is verified, and what the pool itself changes in it is learnt.
    pub fn look(&mut self, at: usize) -> Result<Structure, String> {
        let block = &mut self.blocks[at];
        let place = self.store.structure(block.r.id, false).map_err(failed)?;
        let bytes = self.regions.frame(place.frame).map_err(failed)?;
        if !block.is_ours() || block.right.iter().all(|byte| *byte == 0) {
            *block.right = bytes;
        }
        match *block.right == bytes {
            true => Ok(place),
            false => Err(format!(
                "{} is not what was put into it, and nothing was injected",
                block.r.id
            )),
        }
    }

    /// Legal changes of a metablock, if it is one that is put to.
    pub fn put(&mut self, at: usize, count: usize, dice: &mut Dice) -> Result<(), String> {
        let puts: Vec<(usize, Vec<u8>)> = (0..count).map(|_| legal(dice)).collect();
        let block = &mut self.blocks[at];
        let Some(meaning) = block.meaning else { return Ok(()) };
        let done = self.store.transact::<_, Error>(|t| {
            let mut puts = puts.iter();
            Ok(puts.try_for_each(|(at, bytes)| t.put(block.r, *at, bytes, meaning))?)
        });
        done.map_err(failed)?;
        puts.iter()
            .for_each(|(at, bytes)| block.right[*at..at + bytes.len()].copy_from_slice(bytes));
        Ok(())
    }

    /// A legal change after another one in a transaction, and between them `between`, once.
    pub fn put_twice(
        &mut self,
        at: usize,
        [first, second]: &[(usize, Vec<u8>); 2],
        mut between: impl FnMut(&Subject) -> Result<(), String>,
    ) -> Result<(), String> {
        let block = &self.blocks[at];
        let Some(meaning) = block.meaning else {
            return Err("nobody puts into it".into());
        };
        let mut injected: Option<Result<(), String>> = None;
        let done = self.store.transact::<_, Error>(|t| {
            t.put(block.r, first.0, &first.1, meaning)?;
            injected
                .get_or_insert_with(|| between(self))
                .clone()
                .map_err(Error::Logic)?;
            Ok(t.put(block.r, second.0, &second.1, meaning)?)
        });
        done.map_err(failed)?;
        for (from, bytes) in [first, second] {
            self.blocks[at].right[*from..from + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Now and then the past of all metablocks moves on: to the log, to the device.
    pub fn age(&self, dice: &mut Dice) -> Result<(), String> {
        match dice.below(16) {
            0 => self.store.checkpoint().map_err(failed),
            1 | 2 => self.store.sync().map_err(failed),
            _ => Ok(()),
        }
    }

    /// Lets the pool find what is wrong with a metablock in `frame`.
    pub fn find(&mut self, at: usize, frame: u32, dice: &mut Dice) -> Result<(), String> {
        let finders = if self.blocks[at].is_ours() {
            Finder::ALL.len()
        } else {
            2
        };
        match Finder::ALL[dice.below(finders)] {
            Finder::Scrub => {}
            Finder::Reader => drop(self.served(at)),
            // What a fenced metablock refuses is told; what is served then is looked at below.
            Finder::Writer => drop(self.put(at, 1, dice)),
            Finder::Checkpoint => drop(self.store.checkpoint()),
            Finder::Eviction => self.store.drop_clean_frames(),
        }
        self.store.scrub_frame(frame);
        Ok(())
    }

    /// What a reader of the metablock gets.
    pub fn served(&self, at: usize) -> Served {
        let block = &self.blocks[at];
        let mut bytes = [0; PAGE];
        match self.store.view().read(block.r, 0, &mut bytes) {
            Err(_) => Served::Error,
            Ok(()) if bytes == *block.right => Served::Right,
            Ok(()) => Served::Wrong,
        }
    }

    /// What the pool told since it was asked last, as lines of `number`.
    pub fn heard(&mut self, number: u64) -> Vec<String> {
        let events = self.store.history().events(self.heard);
        self.heard = events.last().map_or(self.heard, |event| event.number);
        events.iter().map(|event| lines::told(number, event)).collect()
    }

    /// Whether it can take another fault.
    pub fn is_well(&self) -> bool {
        self.store.fault().is_none() && self.store.fenced() == 0
    }
}

/// A legal change.
pub fn legal(dice: &mut Dice) -> (usize, Vec<u8>) {
    let len = 1 + dice.below(120);
    let at = BODY + dice.below(PAGE - BODY - len + 1);
    (at, dice.bytes(len))
}

fn made(store: &Store) -> Result<Vec<Block>, Error> {
    let kinds = [
        (Kind::DirLeaf, Meaning::Dirent),
        (Kind::DirIndex, Meaning::DirNode),
        (Kind::BlockMap, Meaning::MapEntry),
        (Kind::Xattr, Meaning::Xattr),
    ];
    let mut refs = store.transact::<_, Error>(|t| {
        let mut refs = vec![(Ref::inode_block(t.new_ino()?), Some(Meaning::Inode))];
        for (kind, meaning) in kinds {
            for owner in 0..NODES {
                refs.push((t.new_node(kind, 0, 7 + owner as u64)?, Some(meaning)));
            }
        }
        Ok(refs)
    })?;
    let shared = [
        (TOTALS, Kind::Totals),
        (MetaId::new(Space::Pages, 0), Kind::Bitmap),
        (MetaId::new(Space::NodeNumbers, 0), Kind::Bitmap),
        (MetaId::new(Space::InodeNumbers, 0), Kind::Bitmap),
    ];
    refs.extend(shared.map(|(id, kind)| (Ref::node(id, kind, 0), None)));
    let block = |(r, meaning)| Block {
        r,
        meaning,
        right: Box::new([0; PAGE]),
    };
    Ok(refs.into_iter().map(block).collect())
}
