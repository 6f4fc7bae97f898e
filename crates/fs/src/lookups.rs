//! Lookup counts: how often each inode number was handed out and not yet forgotten (S-16.7, S-16.23).
//!
//! They lie in guarded memory that outlives the server: one word of 4 bytes an inode number, in a memory file as long as the
//! largest number that the pool can have. Pages of it that are zero again are given back.
//!
//! Invariants:
//! L-1 A count leaves zero, and becomes zero, under the lock of its shard only; other changes are one compare and exchange.
//! L-2 A page is given back under that lock, while all of its counts are zero.
//! L-3 A page that has no memory is not read: the kernel would give it some, which nobody would give back (decision 0673).

use keepfs_store::memory::{Guard, Region};
use keepfs_store::planted::{self, Second};
use keepfs_store::twice::{self, Found};
use keepfs_store::{Error, Padded, Pool};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of shards.
const SHARDS: u64 = 64;
/// Bytes of a page of counts, and of the header.
const PAGE: u64 = 4096;
/// Inode numbers a page.
const A_PAGE: u64 = PAGE / 4;
/// Pages of a shard that are zero before they are given back together: one that is used again soon is not worth it.
const GIVE_BACK: usize = 16;
/// The count; it stays at its greatest value.
const COUNT: u32 = 0x7fff_ffff;
/// The inode has no name and never had one: it may get one.
const LINKABLE: u32 = 1 << 31;
/// Numbers that a pool may hand out beyond the inodes that it has room for: stock and quarantine.
const BEYOND: u64 = 1 << 17;
/// Inodes in a page of the device.
const INODES_A_PAGE: u64 = 15;

const NAME: &str = "keepfs-lookups";
const MAGIC: u64 = 0x3155_4B4C_5346_504B;
/// Where the header tells how often changes were lost while these counts lived.
const LOST_AT: usize = 24;

/// Where it tells that staged data were lost while these counts lived: any bit at either place (S-16.28).
const STAGED_LOST_AT: usize = 32;
/// What stands there then (S-1.3).
const STAGED_LOST: u64 = 0x6C3A_95E1_D20F_7B48;

/// The word at `LOST_AT`: the number, and its complement in the upper half. 0: never; anything else: a server that did not count
/// them noted it, or a stray write.
fn word_of(losses: u32) -> u64 {
    u64::from(losses) | u64::from(!losses) << 32
}

/// What a shard knows of its pages.
#[derive(Default)]
struct Shard {
    /// Counts that are not zero, by page; none is zero.
    pages: HashMap<u64, u32>,
    /// Pages that were written and are zero now.
    zero: HashSet<u64>,
}

/// The counts of a volume. They belong to the mount, not to the pool.
pub(crate) struct Lookups {
    region: Region,
    /// How often changes were lost that were noted with a number.
    losses: u32,
    /// Numbers from here on, which no pool hands out, count as held until the mount ends.
    end: u64,
    shards: Box<[Padded<Mutex<Shard>>]>,
    /// A bit for each page that has memory (L-3); it changes under the lock of the page's shard, or before others have the counts.
    written: Box<[AtomicU64]>,
}

/// Numbers that have a count.
fn end_of(pool: &Pool) -> u64 {
    (pool.pages * INODES_A_PAGE + BEYOND)
        .min(1 << 40)
        .next_multiple_of(A_PAGE)
}

fn failed(bytes: u64) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Memory {
        bytes: bytes as usize,
        source: Arc::new(source),
    }
}

/// Magic, identity of the pool.
fn header(pool: &Pool) -> [u8; 24] {
    let mut header = [0; 24];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..].copy_from_slice(&pool.id.0);
    header
}

/// Whether both places have the same header, of whatever pool.
fn is_header_twice(region: &Region) -> bool {
    let [first, second] = [0, twice::APART].map(|at| {
        let mut header = [0; 24];
        region.load(at, &mut header);
        header
    });
    first == second && first.starts_with(&MAGIC.to_le_bytes())
}

impl Lookups {
    /// No inode is looked up. Errors: `Memory`.
    pub fn new(pool: &Pool, guard: Guard, seal: bool) -> Result<Lookups, Error> {
        let end = end_of(pool);
        let bytes = PAGE + 4 * end;
        let region = Region::sparse(NAME, bytes as usize, guard, seal).map_err(failed(bytes))?;
        twice::store(&region, 0, &header(pool));
        Ok(Lookups::over(region, end))
    }

    /// The counts as an earlier life of the server left them, and what became of their header. Where it is right at neither place they
    /// are used all the same: nothing in it guards them, and without them all open files without names are lost (S-16.28). Errors: `Memory`;
    /// `Damaged` if they are of another size, or another pool's by both places.
    pub fn adopt(memory: OwnedFd, pool: &Pool, guard: Guard, seal: bool) -> Result<(Lookups, Found<()>), Error> {
        let end = end_of(pool);
        let region = Region::adopt(memory, guard, seal).map_err(failed(0))?;
        let right = header(pool);
        let found = twice::found(&region, 0, |found| (*found == right).then_some(()));
        let is_anothers = found == Found::Neither && is_header_twice(&region);
        if region.bytes() as u64 != PAGE + 4 * end || is_anothers {
            return Err(Error::Damaged("the lookup counts are not those of this pool".into()));
        }
        // The file goes on: what stands in it once, or was changed, stands in it twice again.
        twice::store(&region, 0, &right);
        let mut lookups = Lookups::over(region, end);
        let counted = |word: &[u8; 8]| {
            let word = u64::from_le_bytes(*word);
            (word == word_of(word as u32)).then_some(word as u32)
        };
        let losses = twice::found(&lookups.region, LOST_AT, counted).right();
        if losses.is_some() || lookups.has_lost() {
            lookups.set_losses(losses.unwrap_or(0));
        }
        lookups.count_again().map_err(failed(0))?;
        Ok((lookups, found))
    }

    fn over(region: Region, end: u64) -> Lookups {
        Lookups {
            region,
            losses: 0,
            end,
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            written: (0..end.div_ceil(64 * A_PAGE)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// For who holds the memory beyond this process.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.region.descriptor()
    }

    /// Finds the counts that are not zero.
    fn count_again(&self) -> std::io::Result<()> {
        for range in self.region.written_ranges()? {
            let pages = (range.start as u64 / PAGE).max(1)..(range.end as u64).div_ceil(PAGE);
            for page in pages.map(|page| page - 1).filter(|page| page * A_PAGE < self.end) {
                let inos = page * A_PAGE..(page + 1) * A_PAGE;
                self.mark(page, true);
                let count = inos.filter(|ino| self.word(*ino) & COUNT != 0).count() as u32;
                let mut shard = self.shard(page * A_PAGE).lock();
                match count {
                    0 => drop(shard.zero.insert(page)),
                    _ => drop(shard.pages.insert(page, count)),
                }
            }
        }
        Ok(())
    }

    fn shard(&self, ino: u64) -> &Mutex<Shard> {
        &self.shards[(ino / A_PAGE % SHARDS) as usize]
    }

    /// Whether the page of `ino` has memory.
    fn is_written(&self, ino: u64) -> bool {
        let page = ino / A_PAGE;
        self.written[(page / 64) as usize].load(Ordering::Acquire) & 1 << (page % 64) != 0
    }

    /// The page is going to be written, or given back; under the lock of its shard.
    fn mark(&self, page: u64, written: bool) {
        let (word, bit) = (&self.written[(page / 64) as usize], 1 << (page % 64));
        match written {
            true => word.fetch_or(bit, Ordering::AcqRel),
            false => word.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    /// Where the word of two inodes lies that has `ino`'s count, and how far up that stands.
    fn place(ino: u64) -> (usize, u32) {
        ((PAGE + 4 * (ino & !1)) as usize, 32 * (ino & 1) as u32)
    }

    /// The word of `ino`; 0 if its page has no memory.
    fn word(&self, ino: u64) -> u32 {
        if !self.is_written(ino) {
            return 0;
        }
        let (at, shift) = Lookups::place(ino);
        (self.region.load_u64(at, Ordering::Acquire) >> shift) as u32
    }

    /// Replaces the word of `ino` by what `next` makes of it, if it makes something. Returns what it was.
    fn change(&self, ino: u64, next: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        let (at, shift) = Lookups::place(ino);
        loop {
            let both = self.region.load_u64(at, Ordering::Acquire);
            let now = (both >> shift) as u32;
            let Some(new) = next(now) else { return Err(now) };
            let new = both ^ (u64::from(now ^ new) << shift);
            if self.region.replace_u64(at, both, new) {
                return Ok(now);
            }
        }
    }

    /// One more lookup of `ino`.
    pub fn raise(&self, ino: u64) {
        if ino >= self.end {
            return;
        }
        let more = |word: u32| match word & COUNT {
            COUNT => word,
            _ => word + 1,
        };
        let at_once = |word| (word & COUNT != 0).then(|| more(word));
        if self.is_written(ino) && self.change(ino, at_once).is_ok() {
            return;
        }
        let mut shard = self.shard(ino).lock();
        let page = ino / A_PAGE;
        // Other shards have bits of the same word: it is read by all, and seldom written.
        if !self.is_written(ino) {
            self.mark(page, true);
        }
        if self.change(ino, |word| Some(more(word))) == Ok(0) {
            let Shard { pages, zero } = &mut *shard;
            *pages.entry(page).or_insert_with(|| {
                zero.remove(&page);
                0
            }) += 1;
        }
    }

    /// `by` lookups less; `true` if none is left. Unknown numbers are ignored.
    pub fn lower(&self, ino: u64, by: u64) -> bool {
        if ino >= self.end || by == 0 || !self.is_written(ino) {
            return false;
        }
        let by = u32::try_from(by).unwrap_or(COUNT);
        let some_left = |word: u32| match word & COUNT {
            COUNT => Some(word),
            count if count > by => Some(word - by),
            _ => None,
        };
        if self.change(ino, some_left).is_ok() {
            return false;
        }
        let mut shard = self.shard(ino).lock();
        // Somebody may have raised it meanwhile.
        let was = self.change(ino, |word| Some(some_left(word).unwrap_or(0)));
        let (Ok(was) | Err(was)) = was;
        if was & COUNT == 0 || some_left(was).is_some() {
            return false;
        }
        self.one_less(&mut shard, ino / A_PAGE);
        true
    }

    fn one_less(&self, shard: &mut Shard, page: u64) {
        let Some(left) = shard.pages.get_mut(&page) else { return };
        *left -= 1;
        if *left > 0 {
            return;
        }
        shard.pages.remove(&page);
        shard.zero.insert(page);
        if shard.zero.len() >= GIVE_BACK {
            for page in shard.zero.drain() {
                let start = (PAGE + page * PAGE) as usize;
                self.mark(page, false);
                self.region.give_back(start..start + PAGE as usize);
            }
        }
    }

    /// Whether the inode, which is held, never had a name and may get one.
    pub fn set_linkable(&self, ino: u64, may: bool) {
        let next = |word| match may {
            true => word | LINKABLE,
            false => word & !LINKABLE,
        };
        if ino < self.end && self.is_written(ino) {
            let _ = self.change(ino, |word| (word & COUNT != 0).then(|| next(word)));
        }
    }

    /// Whether that is so.
    pub fn is_linkable(&self, ino: u64) -> bool {
        ino < self.end && self.word(ino) & LINKABLE != 0 && !planted::forgets(Second::LinkableForgotten)
    }

    /// The mount ends: nobody holds anything.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let pages: Vec<u64> = shard.pages.drain().map(|(page, _)| page).collect();
            for page in pages {
                self.region.store((PAGE + page * PAGE) as usize, &[0; PAGE as usize]);
                shard.zero.insert(page);
            }
        }
    }

    /// Changes were lost that made inodes which are looked up, or a server before this one noted that (S-16.7).
    pub fn note_lost(&mut self) {
        self.set_losses(self.losses.saturating_add(1));
    }

    fn set_losses(&mut self, losses: u32) {
        self.losses = losses;
        twice::store(&self.region, LOST_AT, &word_of(losses).to_le_bytes());
    }

    /// How often that was noted, by servers that counted it (S-16.9).
    pub fn losses(&self) -> u32 {
        self.losses
    }

    /// Whether that was noted.
    pub fn has_lost(&self) -> bool {
        self.is_noted(LOST_AT)
    }

    fn is_noted(&self, at: usize) -> bool {
        let places = [at, at + twice::APART];
        places
            .iter()
            .any(|at| self.region.load_u64(*at, Ordering::Relaxed) != 0)
    }

    /// A staged page was lost, with changes that were answered (S-16.14).
    pub fn note_lost_staged(&self) {
        twice::store(&self.region, STAGED_LOST_AT, &STAGED_LOST.to_le_bytes());
    }

    /// Whether that was noted.
    pub fn has_lost_staged(&self) -> bool {
        self.is_noted(STAGED_LOST_AT)
    }

    /// Calls `each` with all that somebody holds.
    pub fn each_held(&self, mut each: impl FnMut(u64)) {
        for shard in &self.shards {
            let pages: Vec<u64> = shard.lock().pages.keys().copied().collect();
            for ino in pages.into_iter().flat_map(|page| page * A_PAGE..(page + 1) * A_PAGE) {
                if self.word(ino) & COUNT != 0 {
                    each(ino);
                }
            }
        }
    }

    /// Whether somebody holds `ino`.
    pub fn held(&self, ino: u64) -> bool {
        ino >= self.end || self.word(ino) & COUNT != 0
    }
}

#[cfg(test)]
mod tests;
