//! The store: every byte of metadata, the door through which it changes, and how it becomes durable.
//!
//! Read in this order: [`keepfs_vault`] (frames and the door), [`txn`], [`redo`] and `sync` (groups), `checkpoint`, `recover`.
//! What the store promises is in docs/SPEC.md sections 8 to 11; it knows nothing of names and files.

mod admit;
mod age;
mod audit;
mod cache;
mod checkpoint;
mod closing;
mod crowd;
mod cutter;
mod ending;
mod error;
mod events;
mod fence;
mod gate;
mod heat;
mod history;
mod homes;
mod inject;
mod ladder;
mod locks;
mod log;
mod map;
#[cfg(feature = "measure")]
pub mod measure;
pub mod mmp;
mod moment;
mod newborn;
mod noted;
mod numbers;
mod oplog;
mod options;
mod pool;
mod read;
mod recover;
mod redo;
mod remains;
mod repair;
mod requests;
mod reserve;
mod resume;
mod rewrites;
pub mod scratch;
mod scrub;
mod segment;
mod space;
mod staged;
mod stats;
mod switch;
mod sync;
mod system;
mod totals;
mod trim;
pub mod twice;
mod txn;
mod view;
mod wanted;
mod watched;
mod worker;
mod zones;

pub use audit::Unbalanced;
pub use crowd::Alone;
pub use error::{Abort, BadData, Error, Pressure, Stop};
pub use events::{Damage, Done, Place, Seen};
pub use history::{FINDINGS_ROOM, History};
pub use inject::Structure;
pub use keepfs_codes::Protection;
pub use keepfs_digest::Equations;
pub use keepfs_memory as memory;
pub use keepfs_memory::{Guard, Reuse};
pub use keepfs_vault::arena::{self, Mismatch};
pub use keepfs_vault::{Padded, planted, restart};
pub use ladder::Rungs;
pub use log::{Cut, Mended};
pub use map::CopiesSeen;
pub use noted::News;
pub use oplog::{EarlierState, Half, LoggedTxn};
pub use options::StoreOptions;
pub use pool::{FormatOptions, LOG_PAGES, PROTECT_DEFAULT, Pool, Settings, forget_whole, grow, growth, renew_id};
pub use read::Ref;
pub use remains::{LOOKUPS, NAMES, Remains};
pub use requests::Again;
pub use reserve::{Promised, Reservation};
pub use resume::{Answered, Evidence, Parts, Resumed};
pub use scrub::{Looked, RestPlace};
pub use space::{Figures, Near, Purpose};
pub use stats::{DIRTY_SIZES, DeviceErrors, Snapshot, TimesSeen};
pub use switch::{DeviceFault, DeviceOp, Injection};
pub use sync::group_pages_max;
pub use totals::Totals;
pub use txn::{Base, Birth, FRAMES_MAX, Meaning, Source, Stamp, Txn};
pub use view::View;

use cache::{Cache, Pin};
use checkpoint::{Keeper, Wish};
use core::sync::atomic::{AtomicBool, AtomicU64};
use cutter::Cutter;
use gate::Gate;
use keepfs_format::{PAGE, Space as MetaSpace};
use keepfs_media::{Class, Device, PageNo};
use keepfs_vault::arena::Arena;
use keepfs_vault::undo::UndoLog;
use locks::{Awaited, Mutex};
use map::Map;
use moment::{Deaths, Stash};
use numbers::Numbers;
use redo::Redo;
use segment::Segment;
use staged::{Table, Weight};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use switch::Switch;
use sync::LogState;
use system::System;
use wanted::Wanted;
use watched::WatchedList;

/// Smallest arena of a mounted pool, bytes: room for the largest transactions beside a checkpoint.
pub const ARENA_MIN: usize = 16 << 20;
/// Data written since the last flush above which a group is preceded by a flush of its own.
const UNFLUSHED_MAX: u64 = 64 << 20;
/// Staged pages that writers keep to, with a log that carries as many (S-10.3).
const STAGED_MAX: usize = 2048;
/// Most staged pages beyond that: writers look before they stage, and several may look at the same moment.
const STAGED_SPARE: usize = 256;
/// Redo kept above which everything is made durable in the background, if there is one, bytes (S-14.4).
const REDO_SOFT: usize = segment::RING / 8;
/// Redo kept above which a transaction does that itself before it begins.
const REDO_MAX: usize = segment::RING / 4;
/// Least frames an arena needs to hold the largest transaction beside a checkpoint.
const FRAMES_LEAST: u32 = FRAMES_MAX as u32 * 3 / 2;

/// Checkpoints that a transaction waits for, because too much waits for one, before it is let through.
const CHECKPOINTS_FOR_ONE: u32 = 3;

/// An open pool.
pub struct Store {
    options: StoreOptions,
    /// Nothing is written (yet: [`Store::begin_writing`]).
    read_only: AtomicBool,
    /// It was written, and is closed until it is written again ([`Store::rest`]).
    rests: AtomicBool,
    device: Arc<Switch>,
    pool: Pool,
    arena: Arena,
    cache: Cache,
    clock: age::Clock,
    undo: UndoLog,
    /// Requests under way, if they outlive the server.
    requests: Option<requests::Requests>,
    /// What a dead server left, as long as this one, which may not write, owes what is in it.
    inherited: Option<Remains>,
    oplog: Option<oplog::OpLog>,
    audits: audit::Audits,
    map: Map,
    gate: Padded<Gate>,
    /// Guarded memory of redo and staged pages (S-14).
    segment: Arc<Segment>,
    redo: Padded<Awaited<Redo>>,
    staged_table: Padded<Mutex<Table>>,
    staged_weight: Weight,
    space: Padded<space::Space>,
    /// Who overwrites on a full pool.
    crowd: crowd::Crowd,
    /// Pages that no file may have.
    system: System,
    nodes: Padded<Numbers>,
    inos: Padded<Numbers>,
    owned: Padded<Mutex<txn::Owned>>,
    known: totals::Known,
    sync: sync::Sync,
    log: Awaited<LogState>,
    keeper: Mutex<Keeper>,
    /// As the superblock in force tells it; who asks waits for no checkpoint.
    in_force: Mutex<Pool>,
    /// Counts checkpoints; frames remember in which one they became dirty.
    epoch: AtomicU64,
    dirty_list: Mutex<WatchedList<moment::Dirty>>,
    /// Metablocks that died and whose death is in no checkpoint yet.
    deaths: Deaths,
    /// Indices of INODES metablocks of which an inode was freed.
    emptied: Mutex<std::collections::BTreeSet<u64>>,
    stash: Stash,
    in_flight: AtomicU64,
    bad_copies: Mutex<Vec<map::BadCopy>>,
    given: Padded<sync::Given>,
    /// Pages that may be used again and that the device was not told of yet.
    released: Mutex<Vec<keepfs_format::plog::Run>>,
    /// The log that a read-only opening applied in memory.
    seen_log: Mutex<Option<recover::SeenLog>>,
    /// When the superblock in force was written.
    checkpoint_at: Mutex<Instant>,
    /// Log pages that the most staged pages take when they are carried over (S-10.8).
    carry_room: u64,
    /// Staged pages that writers keep to; what they stage at the same moment may pass it by a little.
    staged_limit: usize,
    /// Most frames that one transaction may touch.
    frames_max: usize,
    /// Most metablocks and map pages that wait for a checkpoint (SPEC S-10.5).
    rewrite_limit: u64,
    /// The same, but no more than the free pages of the pool allow now.
    rewrite_now: AtomicU64,
    rewrites: rewrites::Rewrites,
    switch_zones: AtomicBool,
    /// A scrub has marked what is to be written elsewhere, and no checkpoint has done so since.
    moves: AtomicBool,
    /// Where pages far from others were found last (S-4.9).
    far: AtomicU64,
    ending: ending::Ending,
    wanted: Arc<Wanted>,
    cutter: Arc<Cutter>,
    stats: Padded<stats::Stats>,
    damages: events::Damages,
    history: Arc<history::History>,
    /// Where the log was cut when the pool was opened (S-9.7).
    log_cut: OnceLock<log::Cut>,
    /// Which page of it was made again then (S-9.11).
    log_mended: OnceLock<log::Mended>,
    /// Why the state that was opened may not be the newest (S-21.22).
    superblocks_lost: OnceLock<String>,
    noted: Mutex<noted::Noted>,
    fences: fence::Fences,
    /// That this machine has the pool, where the pool tells (S-2.12).
    mmp: Option<Arc<mmp::Guard>>,
    /// Redo and undo tell all that frames have beyond the log: not while a recovery applies it.
    is_witnessed: AtomicBool,
}

/// Frames that may be dirty at most: all but what the largest transactions need beside them.
fn dirty_most(frames: u32) -> u64 {
    let frames = u64::from(frames);
    (frames / 2).max(frames.saturating_sub(4 * FRAMES_MAX as u64))
}

impl Store {
    /// Makes an empty pool on a device: superblocks, log region, first checkpoint.
    pub fn format(device: Arc<dyn Device>, o: &FormatOptions) -> Result<(), Error> {
        let sb = pool::first_superblock(&*device, o)?;
        let blank = [0; PAGE];
        for slot in 0..keepfs_format::superblock::SLOTS {
            let page = keepfs_format::superblock::slot_page(slot, sb.pages.get());
            device.write(PageNo(page), &blank, Class::Superblock)?;
        }
        let pool = Pool::of(&sb);
        mmp::write_first(&*device, &pool, o.mmp_interval_s)?;
        let (at, pages) = pool.provided();
        device.provide(at, pages)?;
        device.flush()?;
        let options = StoreOptions {
            background: false,
            tiny_arena: true,
            arena_bytes: 4 << 20,
            oplog: false,
            ..StoreOptions::default()
        };
        let store = Store::build(device, sb, &options, 0)?;
        let fixed = pool::fixed_runs(&store.pool);
        let used = fixed.iter().map(|r| u64::from(r.count)).sum();
        let zones = [0, 1].map(|n| {
            store.zone_with(n, &|page| {
                fixed
                    .iter()
                    .any(|r| (r.start..r.start + u64::from(r.count)).contains(&page))
            })
        });
        store.space.start(store.pool.pages, 0, zones);
        store.load_totals()?;
        store.space.used(used);
        store.allocate_fixed(&fixed)?;
        store.checkpoint_as(Wish {
            clean: true,
            new_log: None,
        })
    }

    fn allocate_fixed(&self, fixed: &[keepfs_format::plog::Run]) -> Result<(), Error> {
        for run in fixed {
            let mut at = run.start;
            let end = run.start + u64::from(run.count);
            while at < end {
                let count = (end - at).min(8192) as u32;
                let part = keepfs_format::plog::Run { start: at, count };
                let _pins = self.pin_bits(part)?;
                let mut txn = Txn::begin_unlogged(self);
                txn.use_pages(part).map_err(pool::stopped)?;
                txn.seal().map_err(pool::stopped)?.commit();
                at += u64::from(count);
            }
        }
        Ok(())
    }

    /// Opens a pool and recovers it if it was not closed (SPEC section 9).
    pub fn open(device: Arc<dyn Device>, options: &StoreOptions) -> Result<Arc<Store>, Error> {
        if options.arena_bytes < ARENA_MIN && !options.tiny_arena {
            return Err(Error::BadPool(format!(
                "the arena must have at least {} MiB",
                ARENA_MIN >> 20
            )));
        }
        let available = options.guard.available();
        available.map_err(|e| Error::Guard(e.to_string()))?;
        let (mut store, guard) = mmp::claimed(device, options, mmp::claim::Why::Open, |device| {
            recover::open(device, options)
        })?;
        store.mmp = guard;
        let store = store.start(options)?;
        store.note_mmp()?;
        Ok(store)
    }

    /// From here on others may use it.
    fn start(self, options: &StoreOptions) -> Result<Arc<Store>, Error> {
        let store = Arc::new(self);
        if options.background && !options.read_only {
            store.spawn()?;
        }
        Ok(store)
    }

    /// All parts in their first state, with the superblock's map and an empty cache.
    fn build(
        device: Arc<dyn Device>,
        sb: keepfs_format::superblock::Superblock,
        o: &StoreOptions,
        frames_needed: u64,
    ) -> Result<Store, Error> {
        let mut pool = Pool::of(&sb);
        pool.protect = o.protect.unwrap_or(pool.protect);
        let wanted_frames = (o.arena_bytes / PAGE) as u64;
        let frames = wanted_frames.max(frames_needed).clamp(u64::from(FRAMES_LEAST), 1 << 30) as u32;
        let staged_limit = ((pool.log.pages / 4) as usize).clamp(4, STAGED_MAX);
        let staged_most = staged_limit + (staged_limit / 8).min(STAGED_SPARE);
        let slots = 2 * staged_most + segment::SPARE_SLOTS;
        let segment = Arc::new(Segment::new(slots, o.guard, o.seal, o.lasting)?);
        segment.note_code(pool.protect);
        let staged_table = Table::new(segment.clone());
        let device = Arc::new(Switch::new(device));
        let history = history::History::new(device.clone(), pool.id, pool.history);
        Ok(Store {
            options: o.clone(),
            read_only: AtomicBool::new(o.read_only),
            rests: AtomicBool::new(false),
            device,
            arena: match o.lasting {
                true => Arena::lasting(frames, o.guard, o.seal, pool.protect)?,
                false => Arena::protected(frames, o.guard, o.seal, pool.protect)?,
            },
            cache: Cache::new(frames),
            clock: age::Clock::new(),
            undo: match o.lasting {
                true => UndoLog::lasting(o.guard, o.seal)?,
                false => UndoLog::new(o.guard, o.seal)?,
            },
            requests: match o.lasting {
                true => Some(requests::Requests::new(o.guard, o.seal, segment.incarnation())?),
                false => None,
            },
            inherited: None,
            audits: audit::Audits::new(o.audit, &pool)?,
            oplog: o.oplog.then(|| oplog::OpLog::new(o.guard, o.seal)).transpose()?,
            map: Map::new(sb.roots),
            gate: Padded::default(),
            redo: Padded::new(Awaited::new(Redo::new(segment.clone(), sb.seq.get()))),
            staged_weight: staged_table.weight(),
            staged_table: Padded::new(Mutex::new(staged_table)),
            segment,
            space: Padded::default(),
            crowd: crowd::Crowd::default(),
            system: System::of(&pool),
            nodes: Padded::new(Numbers::new(1, 1)),
            inos: Padded::new(Numbers::new(2, keepfs_format::inode::PER_BLOCK)),
            owned: Padded::default(),
            known: totals::Known::default(),
            sync: sync::Sync::default(),
            log: Awaited::new(LogState::of(&sb)),
            in_force: Mutex::new(Pool::of(&sb)),
            keeper: Mutex::new(Keeper {
                superblock: Keeper::of(&sb),
                homes: homes::Homes::default(),
            }),
            epoch: AtomicU64::new(1),
            dirty_list: Mutex::default(),
            deaths: Deaths::default(),
            stash: Stash::default(),
            emptied: Mutex::default(),
            in_flight: AtomicU64::new(0),
            bad_copies: Mutex::default(),
            given: Padded::default(),
            released: Mutex::default(),
            seen_log: Mutex::default(),
            checkpoint_at: Mutex::new(Instant::now()),
            carry_room: sync::carry_room(staged_most),
            staged_limit,
            frames_max: txn::frames_max(frames),
            rewrite_limit: pool.rewrite_most().min(dirty_most(frames)),
            rewrite_now: AtomicU64::new(u64::MAX),
            rewrites: rewrites::Rewrites::default(),
            switch_zones: AtomicBool::new(false),
            moves: AtomicBool::new(false),
            far: AtomicU64::new(0),
            ending: ending::Ending::default(),
            wanted: Arc::new(Wanted::default()),
            cutter: Arc::new(Cutter::default()),
            stats: Padded::default(),
            damages: events::Damages::default(),
            history: Arc::new(history),
            log_cut: OnceLock::new(),
            log_mended: OnceLock::new(),
            superblocks_lost: OnceLock::new(),
            noted: Mutex::default(),
            fences: fence::Fences::default(),
            mmp: None,
            is_witnessed: AtomicBool::new(false),
            pool,
        })
    }

    /// Runs `f` in a transaction: begin, `f`, seal, commit. When something is missing the transaction is rolled back,
    /// the thing is fetched, and `f` runs again, so `f` must not change anything but the transaction.
    ///
    /// All locks that protect what `f` touches are held by the caller; `f` takes none and does no I/O.
    pub fn transact<T, E: From<Error>>(&self, mut f: impl FnMut(&mut Txn<'_>) -> Result<T, Abort<E>>) -> Result<T, E> {
        let mut pins: Vec<Pin<'_>> = Vec::new();
        let mut checkpoints = 0;
        loop {
            self.ready()?;
            let mut txn = Txn::begin(self);
            // The last checkpoint has waited for who was inside before (S-20.21).
            self.unless_read_only()?;
            if checkpoints > CHECKPOINTS_FOR_ONE {
                txn = txn.unbounded();
            }
            let stop = match f(&mut txn) {
                Ok(value) => match txn.seal() {
                    Ok(sealed) => {
                        sealed.commit();
                        return Ok(value);
                    }
                    Err(stop) => stop,
                },
                Err(Abort::Fail(e)) => return Err(e),
                Err(Abort::Retry(stop)) => {
                    drop(txn);
                    stop
                }
            };
            match stop {
                Stop::Miss(id) => pins.push(self.fetch(id)?),
                Stop::Pressure(Pressure::Cradle(id)) => pins.extend(self.cradle(id)?),
                Stop::Pressure(what) => {
                    checkpoints += u32::from(what == Pressure::Checkpoint);
                    pins.clear();
                    self.relieve(what)?;
                }
                Stop::Error(e) => return Err(e.into()),
            }
            if pins.len() > 2 * self.frames_max {
                pins.clear();
            }
        }
    }

    /// Starts the threads of the background.
    fn spawn(self: &Arc<Store>) -> Result<(), Error> {
        wanted::spawn(self)?;
        cutter::spawn(self)?;
        history::spawn(self)
    }

    fn stop_threads(&self) {
        self.wanted.stop();
        self.cutter.stop();
        self.history.stop();
    }

    /// The threads hold the device while they work: whoever closed the pool may open it again at once.
    fn end_threads(&self) {
        self.stop_threads();
        self.wanted.join();
        self.cutter.join();
    }

    fn want_checkpoint(&self) {
        self.wanted.set();
    }

    fn numbers(&self, space: MetaSpace) -> &Numbers {
        match space {
            MetaSpace::NodeNumbers => &self.nodes,
            _ => &self.inos,
        }
    }

    fn number_limit(&self, _space: MetaSpace) -> u64 {
        1 << 40
    }

    /// The pool's constants.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Key of the name hash.
    pub fn name_seed(&self) -> [u64; 2] {
        self.pool.name_seed
    }

    /// Counters.
    pub fn stats(&self) -> Snapshot {
        self.stats.snapshot()
    }

    /// As if power were cut: nothing reaches the device any more, every call fails from here on.
    pub fn kill(&self) {
        self.stop_threads();
        self.device.turn_off();
        if let Some(guard) = &self.mmp {
            guard.abandon();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(guard) = &self.mmp {
            guard.end();
        }
        self.end_threads();
    }
}
