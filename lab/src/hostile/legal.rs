//! What may be written to a pool (promise C-8, S-11.1): superblocks to their slots, the log to its region, and
//! everything else only to pages that the pool, as a power cut at the last flush would leave it, does not use.
//!
//! Who uses a page is read by `audit` alone, from the page bitmap and HOMES of the image itself: an image whose bitmap
//! lies has given its pages away, an engine that writes to a page that the bitmap calls taken has not understood it.

use crate::crash::judge::Walked;
use core::ops::Range;
use keepfs_check::Finding;
use keepfs_check::read::View;
use keepfs_format::bitmap;
use keepfs_format::blockmap::{PageEntry, UNWRITTEN};
use keepfs_format::map::{CHUNKS, Chunk, chunk_offset};
use keepfs_format::mmp::page_of;
use keepfs_format::superblock::{RO_COMPAT_MMP, SLOTS, slot_page};
use keepfs_format::{FromBytes, MetaId, Space};
use keepfs_media::Class;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Event, Recording};
use std::collections::{BTreeMap, HashSet};

/// INODES and NODES metablocks that are looked at: the images are small.
const BLOCKS_MAX: u64 = 100;
const NODES_MAX: u64 = 2000;
/// Most HOMES metablocks that are looked at.
const HOMES_MAX: u64 = 1 << 12;

/// What a page is to a pool at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Slot,
    Log,
    /// Events and damages (S-18), which nothing depends on.
    History,
    /// It lies in a chunk, where a metablock has it.
    Home,
    /// It lies in a chunk, where nobody has it.
    FreeHome,
    /// Its bit is set, or cannot be read.
    Taken,
    /// What would tell is bad in one copy for `audit`, which does not say what an engine makes of the other.
    Unknown,
    Free,
    /// The pool has no such page.
    Beyond,
}

/// Who uses which page of an image, as recovery would find it.
pub struct Ground {
    pages: u64,
    log: Range<u64>,
    history: Range<u64>,
    /// The block of multi-mount protection.
    mmp: Option<u64>,
    /// Chunks by their first page.
    chunks: BTreeMap<u64, Chunk>,
    /// The page bitmap; `None` where it is bad.
    bits: Vec<Option<Box<[u8; 4096]>>>,
    /// What `audit` says on the way.
    said: Vec<String>,
    /// Chunks are not known.
    homeless: bool,
    /// Two map entries name one page: `audit` believes neither, an engine that has a good copy may.
    twice: bool,
}

impl Ground {
    /// Reads it. `None`: it is no pool.
    pub fn of(image: &Image) -> Option<Ground> {
        let walked = Walked(image);
        let mut view = View::open(&walked).ok()?;
        let sb = *view.superblock();
        let (pages, log, history) = (sb.pages.get(), sb.log_start.get(), sb.history_start.get());
        let bits = (0..pages.div_ceil(bitmap::BITS)).map(|block| {
            let found = view.metablock(MetaId::new(Space::Pages, block));
            found.ok().map(|bytes| Box::new(bytes.unwrap_or([0; 4096])))
        });
        let bits = bits.collect();
        let mut chunks = BTreeMap::new();
        let mut homeless = false;
        for index in 0..HOMES_MAX {
            let found = view.metablock(MetaId::new(Space::Homes, index));
            homeless |= found.is_err();
            let Ok(Some(bytes)) = found else { break };
            let found = (0..CHUNKS).filter_map(|slot| Chunk::read_from_prefix(&bytes[chunk_offset(slot)..]).ok());
            chunks.extend(found.map(|(c, _)| (c.start(), c)).filter(|(start, _)| *start != 0));
        }
        Some(Ground {
            pages,
            log: log..log + sb.log_pages.get(),
            history: history..history + u64::from(sb.history_pages.get()),
            mmp: page_of(&sb).filter(|_| sb.ro_compat.get() & RO_COMPAT_MMP != 0),
            chunks,
            bits,
            said: view.findings().iter().map(ToString::to_string).collect(),
            homeless,
            twice: view
                .findings()
                .iter()
                .any(|f| matches!(f, Finding::MetaPageTwice { .. })),
        })
    }

    fn used(&self, page: u64) -> Use {
        if page >= self.pages {
            return Use::Beyond;
        }
        if (0..SLOTS).any(|slot| slot_page(slot, self.pages) == page) {
            return Use::Slot;
        }
        if self.log.contains(&page) {
            return Use::Log;
        }
        if self.history.contains(&page) {
            return Use::History;
        }
        // Written by whoever writes superblocks, and by nobody else.
        if self.mmp == Some(page) {
            return Use::Slot;
        }
        let chunk = self.chunks.range(..=page).next_back();
        if let Some((start, chunk)) = chunk.filter(|(start, chunk)| page - **start < u64::from(chunk.pages())) {
            let i = (page - start) as usize;
            return match chunk.used[i / 8] & (1 << (i % 8)) {
                0 => Use::FreeHome,
                _ => Use::Home,
            };
        }
        let (_, offset, mask) = bitmap::bit(Space::Pages, page);
        match &self.bits[(page / bitmap::BITS) as usize] {
            Some(bytes) if bytes[offset] & mask == 0 => Use::Free,
            Some(_) if self.homeless && self.twice => Use::Unknown,
            None if self.twice => Use::Unknown,
            _ => Use::Taken,
        }
    }

    /// Whether something of this class (`None`: a discard) may be written to a page, if nothing was since.
    fn allows(&self, class: Option<Class>, page: u64) -> bool {
        match (class, self.used(page)) {
            (Some(Class::Superblock | Class::Plog | Class::History), Use::Unknown) => false,
            (_, Use::Unknown) => true,
            (Some(Class::Superblock), used) => used == Use::Slot,
            (Some(Class::Plog), used) => used == Use::Log,
            (Some(Class::History), used) => used == Use::History,
            (Some(Class::Data) | None, used) => used == Use::Free,
            (_, used) => matches!(used, Use::Free | Use::FreeHome),
        }
    }

    /// Whether the page belongs to the pool itself, whatever is allocated: these never change while it is open.
    fn is_fixed(&self, page: u64) -> bool {
        matches!(self.used(page), Use::Slot | Use::Log | Use::History | Use::Beyond)
    }
}

/// The pages of unwritten entries: those of block map nodes, and those in inodes.
fn unwritten_pages(image: &Image) -> HashSet<u64> {
    let walked = Walked(image);
    let Ok(mut view) = View::open(&walked) else {
        return HashSet::new();
    };
    let blocks = (0..BLOCKS_MAX).map(|n| MetaId::new(Space::Inodes, n));
    let nodes = (0..NODES_MAX).map(|n| MetaId::new(Space::Nodes, n));
    let mut pages = HashSet::new();
    for id in nodes.chain(blocks) {
        let Ok(Some(bytes)) = view.metablock(id) else { continue };
        // Any 16 bytes at the place of an entry that look like one will do: this only forgives.
        let entries = bytes.chunks_exact(8).zip(bytes.chunks_exact(8).skip(1));
        let entries = entries.filter_map(|(a, b)| PageEntry::read_from_bytes(&[a, b].concat()).ok());
        pages.extend(entries.filter(|e| e.flags() == UNWRITTEN).map(|e| e.page()));
    }
    pages
}

/// What the device has durably, and who uses what there, if somebody asked.
struct Durable {
    image: Image,
    ground: Option<Option<Ground>>,
}

/// Tells the first write of a recording that was not legal.
pub fn check(recording: &Recording) -> Result<(), String> {
    let Some(first) = Ground::of(&recording.base) else {
        let wrote = recording.log.iter().any(|e| !matches!(e.event, Event::Flush));
        return match wrote {
            true => Err("something was written to a device that holds no pool".into()),
            false => Ok(()),
        };
    };
    let mut durable = Durable {
        image: recording.base.clone(),
        ground: None,
    };
    let mut since: Vec<&Event> = Vec::new();
    // Pages that were rightly written once are the engine's own: crash enumeration looks after those.
    let mut own: HashSet<u64> = HashSet::new();
    for entry in &recording.log {
        let (at, count, class) = match &entry.event {
            Event::Write { at, pages, class } => (at.0, pages.len() as u64, Some(*class)),
            Event::Discard { at, pages } => (at.0, *pages, None),
            Event::Flush => {
                since.drain(..).for_each(|event| event.apply(&mut durable.image));
                durable.ground = None;
                continue;
            }
        };
        for page in at..at + count {
            let early = first.allows(class, page) || own.contains(&page) && !first.is_fixed(page);
            if !early && !durable.allows(class, page) {
                return Err(format!(
                    "{class:?} was written to page {page}, which was {:?} at first and {} when it was written",
                    first.used(page),
                    durable.told(page)
                ));
            }
            own.insert(page);
        }
        since.push(&entry.event);
    }
    Ok(())
}

impl Durable {
    /// What the page was, in words.
    fn told(&self, page: u64) -> String {
        match &self.ground {
            Some(Some(ground)) => format!("{:?} ({})", ground.used(page), ground.said.join("; ")),
            _ => "in no pool".into(),
        }
    }

    fn allows(&mut self, class: Option<Class>, page: u64) -> bool {
        let ground = self.ground.get_or_insert_with(|| Ground::of(&self.image));
        let Some(ground) = ground else { return false };
        // A page that was allocated and never written is written where it is.
        let unwritten = class == Some(Class::Data) && ground.used(page) == Use::Taken;
        ground.allows(class, page) || unwritten && unwritten_pages(&self.image).contains(&page)
    }
}

#[cfg(test)]
mod tests;
