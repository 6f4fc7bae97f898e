//! Where metadata lives: chunks of pages and which of them are used (SPEC S-4.5). Only checkpoints change this.

use crate::planted::{self, Bug};
use keepfs_format::map::{CHUNKS, Chunk, chunk_offset};
use keepfs_format::plog::Run;
use keepfs_format::{FromBytes, IntoBytes, PAGE};
use std::collections::{BTreeMap, BTreeSet};

/// A run of pages that holds metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Home {
    start: u64,
    pages: u32,
    used: [u8; 32],
}

impl Home {
    fn taken(&self) -> u32 {
        self.used.iter().map(|byte| byte.count_ones()).sum()
    }

    fn run(&self) -> Run {
        Run {
            start: self.start,
            count: self.pages,
        }
    }

    fn is_used(&self, i: u32) -> bool {
        self.used[i as usize / 8] & (1 << (i % 8)) != 0
    }

    /// The first page not used.
    fn first_free(&self) -> Option<u32> {
        let byte = self.used.iter().position(|b| *b != u8::MAX)?;
        let i = byte as u32 * 8 + self.used[byte].trailing_ones();
        (i < self.pages).then_some(i)
    }
}

/// All chunks; slot i stands in HOMES metablock i / 100 at place i % 100.
#[derive(Clone, Default)]
pub struct Homes {
    chunks: Vec<Option<Home>>,
    by_start: BTreeMap<u64, usize>,
    free: u64,
    pages: u64,
    cursor: usize,
    /// No slot below is empty.
    full_below: usize,
    /// New homes are those with the lowest numbers, so that whole chunks become free.
    pub compact: bool,
    /// No chunk that starts before this page has a free one.
    lowest: u64,
    /// HOMES metablocks that differ from the last checkpoint's.
    pub changed: BTreeSet<u64>,
    /// Pages freed since: clear in the new HOMES, but not to be used before it is durable.
    freed: Vec<u64>,
}

impl Homes {
    /// Adds the chunks of HOMES metablock `index`. `Err` says what is wrong with it.
    pub fn load(&mut self, index: u64, block: &[u8; PAGE]) -> Result<(), String> {
        for slot in 0..CHUNKS {
            let at = chunk_offset(slot);
            let chunk = Chunk::read_from_bytes(&block[at..at + size_of::<Chunk>()]).map_err(|e| e.to_string())?;
            if chunk.start() != 0 {
                self.set(index as usize * CHUNKS + slot, chunk)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, slot: usize, chunk: Chunk) -> Result<(), String> {
        if slot >= self.chunks.len() {
            self.chunks.resize(slot + 1, None);
        }
        let home = Home {
            start: chunk.start(),
            pages: chunk.pages(),
            used: chunk.used,
        };
        let taken = (0..home.pages).filter(|i| home.is_used(*i)).count() as u64;
        if self.by_start.insert(home.start, slot).is_some() {
            return Err(format!("two chunks start at page {}", home.start));
        }
        self.free += u64::from(home.pages) - taken;
        self.pages += u64::from(home.pages);
        self.chunks[slot] = Some(home);
        Ok(())
    }

    /// All chunks, ascending by their first page.
    pub fn runs(&self) -> Vec<Run> {
        let slots = self.by_start.values().filter_map(|slot| *self.chunks.get(*slot)?);
        slots.map(|home| home.run()).collect()
    }

    /// Chunks without a used page, those with the highest numbers first.
    pub fn unused(&self) -> Vec<Run> {
        let slots = self.by_start.values().rev();
        let homes = slots.filter_map(|slot| self.chunks.get(*slot)?.as_ref());
        homes.filter(|home| home.taken() == 0).map(Home::run).collect()
    }

    /// The used pages of the highest chunk that is more than half free, if those below it have room for them.
    pub fn sparse_chunk(&self) -> Vec<u64> {
        let homes: Vec<&Home> = self
            .by_start
            .values()
            .filter_map(|slot| self.chunks.get(*slot)?.as_ref())
            .collect();
        let sparse = |home: &&Home| home.taken() > 0 && home.taken() * 2 < home.pages;
        let Some(at) = homes.iter().rposition(sparse) else {
            return Vec::new();
        };
        let home = homes[at];
        let below: u32 = homes[..at].iter().map(|home| home.pages - home.taken()).sum();
        let used = (0..home.pages).filter(|i| home.is_used(*i));
        match below > 2 * home.taken() {
            true => used.map(|i| home.start + u64::from(i)).collect(),
            false => Vec::new(),
        }
    }

    /// A chunk without used pages is no chunk any more.
    pub fn remove(&mut self, run: Run) {
        let Some(slot) = self.by_start.remove(&run.start) else {
            return;
        };
        self.chunks[slot] = None;
        self.full_below = self.full_below.min(slot);
        self.free -= u64::from(run.count);
        self.pages -= u64::from(run.count);
        self.changed.insert((slot / CHUNKS) as u64);
    }

    /// Pages that can be handed out.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Pages in use.
    pub fn used(&self) -> u64 {
        self.pages - self.free
    }

    /// HOMES metablocks.
    pub fn blocks(&self) -> u64 {
        self.chunks.len().div_ceil(CHUNKS) as u64
    }

    /// Adds a new chunk, all free.
    pub fn add(&mut self, start: u64, pages: u32) {
        let empty = self.chunks.iter().skip(self.full_below).position(Option::is_none);
        let slot = empty.map_or(self.chunks.len(), |i| self.full_below + i);
        self.full_below = slot + 1;
        if slot >= self.chunks.len() {
            self.chunks.resize(slot + 1, None);
        }
        self.chunks[slot] = Some(Home {
            start,
            pages,
            used: [0; 32],
        });
        self.by_start.insert(start, slot);
        self.lowest = self.lowest.min(start);
        self.free += u64::from(pages);
        self.pages += u64::from(pages);
        self.changed.insert((slot / CHUNKS) as u64);
    }

    /// A free page for metadata.
    pub fn take(&mut self) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        let slot = match self.compact {
            true => self.lowest_slot()?,
            false => self.next_slot()?,
        };
        let home = self.chunks[slot].as_mut()?;
        let i = home.first_free()?;
        home.used[i as usize / 8] |= 1 << (i % 8);
        self.free -= 1;
        self.cursor = slot;
        self.changed.insert((slot / CHUNKS) as u64);
        Some(home.start + u64::from(i))
    }

    fn has_free(&self, slot: usize) -> bool {
        let home = self.chunks.get(slot).and_then(Option::as_ref);
        home.is_some_and(|home| home.first_free().is_some())
    }

    fn next_slot(&self) -> Option<usize> {
        let count = self.chunks.len();
        (0..count)
            .map(|step| (self.cursor + step) % count)
            .find(|slot| self.has_free(*slot))
    }

    fn lowest_slot(&mut self) -> Option<usize> {
        let mut chunks = self.by_start.range(self.lowest..);
        let (start, slot) = chunks
            .find(|(_, slot)| self.has_free(**slot))
            .map(|(start, slot)| (*start, *slot))?;
        self.lowest = start;
        Some(slot)
    }

    /// Frees a page with the checkpoint being made. `Err` if it is no used metadata page.
    pub fn release(&mut self, page: u64) -> Result<(), String> {
        let (slot, i) = self
            .find(page)
            .ok_or_else(|| format!("page {page} holds metadata outside all chunks"))?;
        let used = self.chunks[slot].as_ref().is_some_and(|h| h.is_used(i));
        if !used {
            return Err(format!("metadata page {page} is not marked used"));
        }
        self.changed.insert((slot / CHUNKS) as u64);
        self.freed.push(page);
        if planted::is(Bug::HomesReusedAtOnce) {
            self.settle();
        }
        Ok(())
    }

    fn find(&self, page: u64) -> Option<(usize, u32)> {
        let (start, slot) = self.by_start.range(..=page).next_back()?;
        let home = self.chunks.get(*slot)?.as_ref()?;
        let i = page - start;
        (i < u64::from(home.pages)).then_some((*slot, i as u32))
    }

    /// Clears the bits of the pages freed: call when nothing more is taken in this checkpoint.
    pub fn settle(&mut self) {
        for page in core::mem::take(&mut self.freed) {
            let Some((slot, i)) = self.find(page) else { continue };
            if let Some(home) = &mut self.chunks[slot] {
                home.used[i as usize / 8] &= !(1 << (i % 8));
                self.free += 1;
                self.lowest = self.lowest.min(home.start);
            }
        }
    }

    /// Writes the chunks of HOMES metablock `index` behind its header.
    pub fn store(&self, index: u64, block: &mut [u8; PAGE]) {
        for slot in 0..CHUNKS {
            let at = chunk_offset(slot);
            let home = self.chunks.get(index as usize * CHUNKS + slot).copied().flatten();
            let bytes = &mut block[at..at + size_of::<Chunk>()];
            match home {
                Some(h) => bytes.copy_from_slice(Chunk::new(h.start, h.pages, h.used).as_bytes()),
                None => bytes.fill(0),
            }
        }
    }
}
