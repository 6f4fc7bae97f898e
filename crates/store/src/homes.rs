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
    cursor: usize,
    /// No slot below is empty.
    full_below: usize,
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
        self.chunks[slot] = Some(home);
        Ok(())
    }

    /// All chunks, ascending by their first page.
    pub fn runs(&self) -> Vec<Run> {
        let slots = self.by_start.values().filter_map(|slot| *self.chunks.get(*slot)?);
        let run = |home: Home| Run {
            start: home.start,
            count: home.pages,
        };
        slots.map(run).collect()
    }

    /// Pages that can be handed out.
    pub fn free(&self) -> u64 {
        self.free
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
        self.free += u64::from(pages);
        self.changed.insert((slot / CHUNKS) as u64);
    }

    /// A free page for metadata.
    pub fn take(&mut self) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        let count = self.chunks.len();
        for step in 0..count {
            let slot = (self.cursor + step) % count;
            let Some(home) = &mut self.chunks[slot] else { continue };
            let Some(i) = home.first_free() else { continue };
            home.used[i as usize / 8] |= 1 << (i % 8);
            self.free -= 1;
            self.cursor = slot;
            self.changed.insert((slot / CHUNKS) as u64);
            return Some(home.start + u64::from(i));
        }
        None
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
