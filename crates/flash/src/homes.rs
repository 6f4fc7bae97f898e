//! Where metadata lives: chunks of pages and which of them are used (SPEC S-4.5). Only checkpoints change this.
//!
//! Invariant: each chunk, the pages freed and the metablocks changed have sums, and are compared with them when they are
//! used (C-3). The figures and the index by first page are compared with the chunks.

mod pairs;

pub use pairs::far_pairs;

use crate::error::Error;
use crate::watched::{Stray, Watched, WatchedList, WatchedMap};
use keepfs_format::map::{CHUNKS, Chunk, chunk_offset};
use keepfs_format::plog::Run;
use keepfs_format::{FromBytes, FromZeros, IntoBytes, PAGE};
use keepfs_vault::planted::{self, Bug};
use std::collections::BTreeMap;

/// A run of pages that holds metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Home {
    start: u64,
    pages: u32,
    used: [u8; 32],
}

impl Home {
    /// `None`: the place is empty.
    fn of(chunk: Chunk) -> Option<Home> {
        (chunk.start() != 0).then(|| Home {
            start: chunk.start(),
            pages: chunk.pages(),
            used: chunk.used,
        })
    }

    fn chunk(&self) -> Chunk {
        Chunk::new(self.start, self.pages, self.used)
    }

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
    chunks: Vec<Watched<Chunk>>,
    by_start: BTreeMap<u64, usize>,
    free: u64,
    pages: u64,
    cursor: usize,
    /// No slot below is empty.
    full_below: usize,
    /// New homes are those with the lowest numbers, so that whole chunks become free.
    pub compact: bool,
    /// Pairs of free pages that are handed out next, the last one first. Each is held against its chunk when it is taken.
    pairs: Vec<[u64; 2]>,
    /// First page of the chunk that the last pair began in: the next ones follow there.
    begin: u64,
    /// No chunk that starts before this page has a free one.
    lowest: u64,
    /// HOMES metablocks that differ from the last checkpoint's.
    changed: WatchedMap<()>,
    /// Pages freed since: clear in the new HOMES, but not to be used before it is durable.
    freed: WatchedList<u64>,
}

impl From<Stray> for Error {
    fn from(Stray { address }: Stray) -> Error {
        Error::Heap { address }
    }
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
        let Some(home) = Home::of(chunk) else { return Ok(()) };
        let taken = (0..home.pages).filter(|i| home.is_used(*i)).count() as u64;
        if u64::from(home.taken()) != taken {
            return Err(format!(
                "the chunk at page {} has pages in use beyond its end",
                home.start
            ));
        }
        if self.by_start.insert(home.start, slot).is_some() {
            return Err(format!("two chunks start at page {}", home.start));
        }
        self.free += u64::from(home.pages) - taken;
        self.pages += u64::from(home.pages);
        self.put(slot, Some(&home));
        Ok(())
    }

    /// A stray write into the first chunk.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble(&mut self) {
        self.chunks[0].scribble(|chunk| chunk.used[0] ^= 1);
    }

    /// The chunk in a place.
    fn home(&self, slot: usize) -> Result<Option<Home>, Stray> {
        match self.chunks.get(slot) {
            Some(chunk) => Ok(Home::of(chunk.get(slot as u64)?)),
            None => Ok(None),
        }
    }

    fn put(&mut self, slot: usize, home: Option<&Home>) {
        for empty in self.chunks.len()..=slot {
            self.chunks.push(Watched::new(empty as u64, Chunk::new_zeroed()));
        }
        self.chunks[slot] = Watched::new(slot as u64, home.map_or_else(Chunk::new_zeroed, Home::chunk));
    }

    /// The chunk that the index by first page leads to. Errors: it is not there.
    fn indexed(&self, (start, slot): (&u64, &usize)) -> Result<Home, Stray> {
        let home = self.home(*slot)?.filter(|home| home.start == *start);
        home.ok_or_else(|| Stray {
            address: core::ptr::from_ref(start).addr(),
        })
    }

    /// All chunks, ascending by their first page.
    fn ascending(&self) -> Result<Vec<Home>, Stray> {
        self.by_start.iter().map(|place| self.indexed(place)).collect()
    }

    /// All chunks as runs, ascending by their first page.
    pub fn runs(&self) -> Result<Vec<Run>, Stray> {
        Ok(self.ascending()?.iter().map(Home::run).collect())
    }

    /// Chunks without a used page, those with the highest numbers first.
    pub fn unused(&self) -> Result<Vec<Run>, Stray> {
        let homes = self.ascending()?;
        let unused = homes.iter().rev().filter(|home| home.taken() == 0);
        Ok(unused.map(Home::run).collect())
    }

    /// The used pages of the highest chunk that is more than half free, if those that are taken before its own have room for them.
    pub fn sparse_chunk(&self, apart: Option<u64>) -> Result<Vec<u64>, Stray> {
        let homes = self.ascending()?;
        let sides = self.sides(apart)?;
        let mut below = 0;
        let mut found = None;
        for home in &homes {
            let free = home.pages - home.taken();
            let is_sparse = home.taken() > 0 && home.taken() * 2 < home.pages;
            if is_sparse && sides.before(below, free).is_some_and(|room| room > 2 * home.taken()) {
                found = Some(*home);
            }
            below += free;
        }
        let used = |home: Home| {
            (0..home.pages)
                .filter(move |i| home.is_used(*i))
                .map(move |i| home.start + u64::from(i))
        };
        Ok(found.map_or_else(Vec::new, |home| used(home).collect()))
    }

    /// A chunk without used pages is no chunk any more.
    pub fn remove(&mut self, run: Run) {
        let Some(slot) = self.by_start.remove(&run.start) else {
            return;
        };
        self.put(slot, None);
        self.pairs.clear();
        self.full_below = self.full_below.min(slot);
        self.free -= u64::from(run.count);
        self.pages -= u64::from(run.count);
        self.change((slot / CHUNKS) as u64);
    }

    /// HOMES metablock `index` is written by the checkpoint being made.
    pub fn change(&mut self, index: u64) {
        self.changed.insert(index, ());
    }

    /// HOMES metablocks that differ from the last checkpoint's, ascending.
    pub fn changed(&self) -> Result<Vec<u64>, Stray> {
        Ok(self.changed.all()?.into_iter().map(|(index, ())| index).collect())
    }

    /// The checkpoint is durable: nothing differs from it.
    pub fn arrived(&mut self) {
        self.changed.clear();
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
    pub fn add(&mut self, start: u64, pages: u32) -> Result<(), Stray> {
        let mut slot = self.full_below;
        while self.home(slot)?.is_some() {
            slot += 1;
        }
        self.full_below = slot + 1;
        let used = [0; 32];
        self.put(slot, Some(&Home { start, pages, used }));
        self.by_start.insert(start, slot);
        self.pairs.clear();
        self.lowest = self.lowest.min(start);
        self.free += u64::from(pages);
        self.pages += u64::from(pages);
        self.change((slot / CHUNKS) as u64);
        Ok(())
    }

    /// A free page for metadata.
    pub fn take(&mut self) -> Result<Option<u64>, Stray> {
        if self.free == 0 {
            return Ok(None);
        }
        let found = match self.compact {
            true => self.lowest_free()?,
            false => self.next_free()?,
        };
        Ok(found.map(|found| self.take_at(found)))
    }

    /// A free page of a chunk becomes a used one.
    fn take_at(&mut self, (slot, mut home, i): (usize, Home, u32)) -> u64 {
        home.used[i as usize / 8] |= 1 << (i % 8);
        self.put(slot, Some(&home));
        self.free -= 1;
        self.cursor = slot;
        self.change((slot / CHUNKS) as u64);
        home.start + u64::from(i)
    }

    /// A chunk with a free page: its place, itself, and which page.
    fn next_free(&self) -> Result<Option<(usize, Home, u32)>, Stray> {
        let count = self.chunks.len();
        for slot in (0..count).map(|step| (self.cursor + step) % count) {
            if let Some(home) = self.home(slot)?
                && let Some(i) = home.first_free()
            {
                return Ok(Some((slot, home, i)));
            }
        }
        Ok(None)
    }

    /// The same, of all the one with the lowest numbers.
    fn lowest_free(&mut self) -> Result<Option<(usize, Home, u32)>, Stray> {
        for place in self.by_start.range(self.lowest..) {
            let home = self.indexed(place)?;
            if let Some(i) = home.first_free() {
                let slot = *place.1;
                self.lowest = home.start;
                return Ok(Some((slot, home, i)));
            }
        }
        Ok(None)
    }

    /// Frees a page with the checkpoint being made. Errors: it is no used metadata page.
    pub fn release(&mut self, page: u64) -> Result<(), Error> {
        let (slot, home, i) = self
            .find(page)?
            .ok_or_else(|| Error::Damaged(format!("page {page} holds metadata outside all chunks")))?;
        if !home.is_used(i) {
            return Err(Error::Damaged(format!("metadata page {page} is not marked used")));
        }
        self.change((slot / CHUNKS) as u64);
        self.freed.push(page);
        if planted::is(Bug::HomesReusedAtOnce) {
            self.settle()?;
        }
        Ok(())
    }

    fn find(&self, page: u64) -> Result<Option<(usize, Home, u32)>, Stray> {
        let Some(place) = self.by_start.range(..=page).next_back() else {
            return Ok(None);
        };
        let home = self.indexed(place)?;
        let i = page - home.start;
        Ok((i < u64::from(home.pages)).then_some((*place.1, home, i as u32)))
    }

    /// Clears the bits of the pages freed: call when nothing more is taken in this checkpoint. The figures must be those
    /// of the chunks then, or one of them is lost.
    pub fn settle(&mut self) -> Result<(), Error> {
        let freed = core::mem::take(&mut self.freed);
        self.pairs.clear();
        for page in freed.iter() {
            let Some((slot, mut home, i)) = self.find(page?)? else {
                continue;
            };
            home.used[i as usize / 8] &= !(1 << (i % 8));
            self.put(slot, Some(&home));
            self.free += 1;
            self.lowest = self.lowest.min(home.start);
        }
        let (mut pages, mut taken) = (0, 0);
        for slot in 0..self.chunks.len() {
            if let Some(home) = self.home(slot)? {
                pages += u64::from(home.pages);
                taken += u64::from(home.taken());
            }
        }
        match pages == self.pages && pages.checked_sub(taken) == Some(self.free) {
            true => Ok(()),
            false => Err(Error::Heap {
                address: core::ptr::from_ref(self).addr(),
            }),
        }
    }

    /// Writes the chunks of HOMES metablock `index` behind its header.
    pub fn store(&self, index: u64, block: &mut [u8; PAGE]) -> Result<(), Stray> {
        for place in 0..CHUNKS {
            let at = chunk_offset(place);
            let home = self.home(index as usize * CHUNKS + place)?;
            let chunk = home.as_ref().map_or_else(Chunk::new_zeroed, Home::chunk);
            block[at..at + size_of::<Chunk>()].copy_from_slice(chunk.as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
