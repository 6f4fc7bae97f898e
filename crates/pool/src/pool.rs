//! The pool as a superblock describes it, and the first superblock (SPEC section 2).

mod choose;
mod entry;
mod history;
pub mod protect;
mod settings;

pub use choose::{
    COUNT_MAX, Flipped, LOG_PAGES, Taken, choose, may_count, may_write, superblock_bytes, superblocks, take,
    whole_superblocks,
};
pub use entry::entry_damage;
pub use protect::PROTECT_DEFAULT;
pub use settings::Settings;

use crate::error::Error;
use crate::log;
use choose::ZONE_PAGES;
use keepfs_codes::Protection;
use keepfs_codes::identity::Identities;
use keepfs_format::bitmap::{self, TOTALS_BLOCKS};
use keepfs_format::map::{CHUNK_PAGES_MAX, MapEntry};
use keepfs_format::plog::Run;
use keepfs_format::superblock::{
    self, INCOMPAT_TEST, PAGES_MAX, PAGES_MIN, RO_COMPAT_MMP, RO_COMPAT_MMP_ON, RO_COMPAT_PREALLOCATED, Superblock,
};
use keepfs_format::{FromBytes, Header, MetaId, PAGE, PoolId, metablock, mmp};
use keepfs_media::{Device, PageNo};

/// What never changes in memory while a pool is open; [`Settings`] are changed on the device for the next opening.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its identity.
    pub id: PoolId,
    /// The part of it in metablock headers.
    pub tag: u32,
    /// Whose the frames of its metablocks are (S-15.4).
    pub identities: Identities,
    /// Device pages.
    pub pages: u64,
    /// The number of pages that places the slots (S-2.15).
    pub slots_by: u64,
    /// Copies of metadata, 1 or 2.
    pub meta_copies: u32,
    /// Key of the name hash.
    pub name_seed: [u64; 2],
    /// Pages of a zone.
    pub zone_pages: u64,
    /// Preferred length of a chunk.
    pub chunk_pages: u32,
    /// The log region.
    pub log: log::Region,
    /// Where the history lies (S-2.7).
    pub history: Option<Run>,
    /// Where its block of multi-mount protection lies (S-2.12).
    pub mmp: Option<u64>,
    /// Whether its superblock says that this protection is on; where the block is whole, that counts (S-2.20).
    pub mmp_is_on: bool,
    /// Label.
    pub label: String,
    /// What guards frames in memory (S-2.6).
    pub protect: Protection,
    /// When it was made, seconds since 1970.
    pub created_s: i64,
    /// It was made for tests: faults may be injected into it (S-2.8).
    pub is_test: bool,
    /// Its pages have their room for ever: none is discarded (S-2.17).
    pub is_preallocated: bool,
}

/// Where a pool keeps its metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HomeKind {
    /// Pages of a device, with a log and checkpoints.
    #[default]
    Flash,
    /// Persistent memory, which there is not yet.
    Nvm,
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Where it shall keep its metadata.
    pub home: HomeKind,
    /// Label, at most 64 bytes.
    pub label: String,
    /// Copies of metadata on the device, 1 or 2.
    pub meta_copies: u32,
    /// Identity; random if `None`.
    pub id: Option<PoolId>,
    /// Key of the name hash; random if `None`.
    pub name_seed: Option<[u64; 2]>,
    /// Pages of the log; chosen by size if `None`.
    pub log_pages: Option<u64>,
    /// Pages of a zone; chosen by size if `None`.
    pub zone_pages: Option<u64>,
    /// Time of creation, seconds and nanoseconds since 1970.
    pub created: (i64, u32),
    /// What guards frames in memory (S-2.6).
    pub protect: Protection,
    /// Pages of the history (S-2.7); chosen by size if `None`, 0 = none.
    pub history_pages: Option<u32>,
    /// Give it a block of multi-mount protection (S-2.12), where it has a history.
    pub mmp: bool,
    /// Have that on from the beginning, with this interval in seconds.
    pub mmp_interval_s: Option<u32>,
    /// Make it a pool for tests, into which faults may be injected (S-2.8).
    pub test: bool,
    /// Have room for all its pages now and for ever (S-2.17).
    pub preallocate: bool,
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions {
            home: HomeKind::default(),
            label: String::new(),
            meta_copies: 2,
            id: None,
            name_seed: None,
            log_pages: None,
            zone_pages: None,
            created: (0, 0),
            protect: PROTECT_DEFAULT,
            history_pages: None,
            mmp: false,
            mmp_interval_s: None,
            test: false,
            preallocate: false,
        }
    }
}

/// Most dirty metablocks, however large the pool: 1 GiB of them (S-9.6).
const DIRTY_MAX: u64 = 1 << 18;
/// Metablocks that transactions open at one time touch, those of a checkpoint's moment and those behind it (S-9.6).
const OPEN_FRAMES: u64 = 1 << 15;
/// The copies of a metablock lie at least one of so many parts of the device from each other (S-4.9).
const APART_PART: u64 = 8;
/// Smaller pools have one TOTALS metablock, because each may need a home (S-10.5).
const PAGES_OF_MANY: u64 = 1 << 16;
/// Largest log that is chosen by size, pages.
const LOG_MAX: u64 = 65_536;

impl Pool {
    /// Which metablock of this pool a page holds, as its header says; nobody vouches for the rest of it.
    pub fn metablock_in(&self, bytes: &[u8; PAGE]) -> Option<MetaId> {
        let (header, _) = Header::read_from_prefix(bytes).ok()?;
        let ours = header.magic.get() == metablock::MAGIC && header.pool.get() == self.tag;
        ours.then(|| MetaId(header.id.get()))
    }

    /// The header is that of `id` in the life that the map entry tells (S-3.2).
    pub fn names_itself(&self, id: MetaId, entry: &MapEntry, bytes: &[u8; PAGE]) -> bool {
        Header::read_from_prefix(bytes).is_ok_and(|(h, _)| {
            h.magic.get() == metablock::MAGIC
                && h.id.get() == id.0
                && h.generation == entry.generation
                && h.kind == entry.kind
                && h.pool.get() == self.tag
        })
    }

    /// The pages of a zone.
    pub fn zone_run(&self, number: u64) -> Run {
        let (start, count) = self.zone(number);
        Run { start, count }
    }

    /// The pool on a device, by its newest superblock (S-2.3). Errors: there is none.
    pub fn on(device: &dyn Device) -> Result<Pool, Error> {
        choose(device).map(|sb| Pool::of(&sb))
    }

    /// The pages that have room from the beginning: of a preallocated pool all (S-2.17), else the log, which is written all around and
    /// larger than what is kept for a full host (S-2.14).
    pub fn provided(&self) -> (PageNo, u64) {
        match self.is_preallocated {
            true => (PageNo(0), self.pages),
            false => (PageNo(self.log.start), self.log.pages),
        }
    }

    /// The constants of a superblock that was checked.
    pub fn of(sb: &Superblock) -> Pool {
        let id = PoolId(sb.pool);
        let label = sb.label.split(|b| *b == 0).next().unwrap_or_default();
        Pool {
            id,
            tag: id.tag(),
            identities: Identities::of(&id.0),
            pages: sb.pages.get(),
            slots_by: sb.slots_by(),
            meta_copies: sb.meta_copies.get(),
            name_seed: sb.name_seed.map(|s| s.get()),
            zone_pages: sb.zone_pages.get(),
            chunk_pages: sb.chunk_pages.get(),
            log: log::Region {
                start: sb.log_start.get(),
                pages: sb.log_pages.get(),
                pool: id,
            },
            history: history::of(sb),
            mmp: mmp_page(sb),
            mmp_is_on: sb.ro_compat.get() & RO_COMPAT_MMP_ON != 0,
            label: String::from_utf8_lossy(label).into_owned(),
            protect: protect::of(sb.protect).unwrap_or(PROTECT_DEFAULT),
            created_s: sb.created_sec.get(),
            is_test: sb.incompat.get() & INCOMPAT_TEST != 0,
            is_preallocated: sb.ro_compat.get() & RO_COMPAT_PREALLOCATED != 0,
        }
    }

    /// Most metablocks and map pages that may wait for a checkpoint (S-10.5); a smaller arena allows fewer.
    pub fn rewrite_most(&self) -> u64 {
        (self.pages / 64).clamp(64, DIRTY_MAX)
    }

    /// Most metablocks that a checkpoint may have to write, for a replay (S-9.6): more than what a pool lets wait.
    fn dirty_most(&self) -> u64 {
        (self.pages / 32).clamp(32, DIRTY_MAX)
    }

    /// Most metablocks that a log changes and that are alive at one time (S-9.6): those of two checkpoints, those of the
    /// transactions that were open then, and never more than have a home.
    pub fn replay_most(&self) -> u64 {
        let dirty = 2 * self.dirty_most() + OPEN_FRAMES;
        dirty.min(self.pages / u64::from(self.meta_copies))
    }

    /// How far the copies of a metablock lie from each other at least, pages (S-4.9). `None`: there is one.
    pub fn apart(&self) -> Option<u64> {
        (self.meta_copies == 2).then_some(self.pages / APART_PART)
    }

    /// TOTALS metablocks whose stripes this version changes; it reads all that there may be.
    #[inline]
    pub fn totals_blocks(&self) -> u64 {
        if self.pages < PAGES_OF_MANY { 1 } else { TOTALS_BLOCKS }
    }

    /// The metablock, and its stripe, that the transaction in an undo slot changes (S-13.4).
    #[inline]
    pub fn stripe_of(&self, slot: u16) -> (MetaId, usize) {
        let blocks = self.totals_blocks();
        (
            bitmap::totals(u64::from(slot) % blocks),
            (u64::from(slot) / blocks) as usize,
        )
    }

    /// Number of zones.
    pub fn zones(&self) -> u64 {
        self.pages.div_ceil(self.zone_pages)
    }

    /// First page and length of a zone.
    #[inline]
    pub fn zone(&self, number: u64) -> (u64, u32) {
        let start = number * self.zone_pages;
        (start, (self.pages.saturating_sub(start)).min(self.zone_pages) as u32)
    }
}

/// Makes the first superblock of a pool.
pub fn first_superblock(device: &dyn Device, o: &FormatOptions) -> Result<Superblock, Error> {
    let pages = device.pages().min(PAGES_MAX);
    if pages < PAGES_MIN {
        return Err(Error::BadPool(format!("a pool needs at least {} KiB", PAGES_MIN * 4)));
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
    let word = |i: usize| random[i..i + 8].try_into().map(u64::from_le_bytes).unwrap_or(1);
    let mut sb = Superblock::blank();
    protect::store(&mut sb, o.protect)?;
    if o.test {
        sb.incompat = (sb.incompat.get() | INCOMPAT_TEST).into();
    }
    sb.pool =
        o.id.map_or_else(|| random[..16].try_into().unwrap_or_default(), |id| id.0);
    settings::store_label(&mut sb, &o.label)?;
    sb.meta_copies = o.meta_copies.clamp(1, 2).into();
    sb.pages = pages.into();
    sb.generation = 1.into();
    sb.incarnation = 1.into();
    sb.group = 1.into();
    sb.log_start = 1.into();
    sb.log_pages = o
        .log_pages
        .unwrap_or((pages / 32).clamp(*LOG_PAGES.start(), LOG_MAX))
        .clamp(*LOG_PAGES.start(), (pages / 4 - 1).min(*LOG_PAGES.end()))
        .into();
    // At least two zones, so that both of the superblock's exist (S-2.3).
    let zone_pages = o.zone_pages.unwrap_or(pages / 8);
    sb.zone_pages = zone_pages
        .clamp(*ZONE_PAGES.start(), (*ZONE_PAGES.end()).min(pages / 2))
        .into();
    sb.chunk_pages = ((pages / 64).clamp(16, u64::from(CHUNK_PAGES_MAX)) as u32).into();
    sb.state = superblock::CLEAN.into();
    sb.name_seed = o.name_seed.unwrap_or([word(16), word(24)]).map(Into::into);
    sb.created_sec = o.created.0.into();
    sb.created_nsec = o.created.1.into();
    sb.zone_next = 1.into();
    sb.log_seq = Pool::of(&sb).log.first().into();
    history::place(&mut sb, o.history_pages);
    if o.mmp && mmp::page_of(&sb).is_some() {
        let is_on = if o.mmp_interval_s.is_some() {
            RO_COMPAT_MMP_ON
        } else {
            0
        };
        sb.ro_compat = (RO_COMPAT_MMP | is_on).into();
    }
    if o.preallocate {
        sb.ro_compat = (sb.ro_compat.get() | RO_COMPAT_PREALLOCATED).into();
    }
    Ok(sb)
}

/// Where the block of multi-mount protection lies, if the pool has one.
fn mmp_page(sb: &Superblock) -> Option<u64> {
    mmp::page_of(sb).filter(|_| sb.ro_compat.get() & RO_COMPAT_MMP != 0)
}

/// Runs that the page bitmap of an empty pool has set: superblock slots, log, history (S-2.4, S-2.7), and the block behind it (S-2.12).
pub fn fixed_runs(pool: &Pool) -> Vec<Run> {
    let mut runs = vec![Run {
        start: pool.log.start,
        count: pool.log.pages as u32,
    }];
    runs.extend((0..superblock::SLOTS).map(|s| Run {
        start: superblock::slot_page(s, pool.slots_by),
        count: 1,
    }));
    runs.extend(pool.history);
    runs.extend(pool.mmp.map(|start| Run { start, count: 1 }));
    runs
}
