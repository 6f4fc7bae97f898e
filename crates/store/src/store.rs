//! The store in its parts, and what composes them: a pool is made, opened, changed by transactions, ended.

use crate::alloc::Allocators;
use crate::cache::Pin;
use crate::checkpoint::Wish;
use crate::error::{Abort, Error, Pressure, Stop};
use crate::frames::Frames;
use crate::home::Home;
use crate::life::Life;
use crate::options::StoreOptions;
use crate::pool::{self, FormatOptions, Pool};
use crate::stats::Snapshot;
use crate::switch::Switch;
use crate::transactions::Transactions;
use crate::txn::Txn;
use crate::watch::Watch;
use crate::{history, mmp, zones};
use keepfs_format::PAGE;
use keepfs_format::plog::Run;
use keepfs_format::superblock::{self, Superblock};
use keepfs_media::{Class, Device, PageNo};
use std::sync::Arc;

/// Checkpoints that a transaction waits for, because too much waits for one, before it is let through.
const CHECKPOINTS_FOR_ONE: u32 = 3;

/// An open pool.
pub struct Store {
    /// Where its pages are.
    pub(crate) device: Arc<Switch>,
    /// What never changes of it.
    pub(crate) pool: Pool,
    /// How it was opened, and whether it may write.
    pub(crate) life: Life,
    /// Metadata in memory.
    pub(crate) frames: Frames,
    /// What changes it.
    pub(crate) txns: Transactions,
    /// What new files and metadata get.
    pub(crate) alloc: Allocators,
    /// Where metadata stays.
    pub(crate) home: Home,
    /// What watches all of that.
    pub(crate) watch: Watch,
}

impl Store {
    /// Makes an empty pool on a device: superblocks, log region, first checkpoint.
    pub fn format(device: Arc<dyn Device>, o: &FormatOptions) -> Result<(), Error> {
        Home::is_there(o.home)?;
        let sb = pool::first_superblock(&*device, o)?;
        let blank = [0; PAGE];
        for slot in 0..superblock::SLOTS {
            let page = superblock::slot_page(slot, sb.pages.get());
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
        let open = [0, 1].map(|n| {
            zones::zone_with(&store.pool, n, &|page| {
                fixed
                    .iter()
                    .any(|r| (r.start..r.start + u64::from(r.count)).contains(&page))
            })
        });
        store.alloc.space.start(store.pool.pages, 0, open);
        store.load_totals()?;
        store.alloc.space.used(used);
        store.allocate_fixed(&fixed)?;
        store.home.checkpoint_as(
            &store,
            Wish {
                clean: true,
                new_log: None,
            },
        )
    }

    fn allocate_fixed(&self, fixed: &[Run]) -> Result<(), Error> {
        for run in fixed {
            let mut at = run.start;
            let end = run.start + u64::from(run.count);
            while at < end {
                let count = (end - at).min(8192) as u32;
                let part = Run { start: at, count };
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
        Home::is_there(options.home)?;
        Frames::check_size(options)?;
        let available = options.guard.available();
        available.map_err(|e| Error::Guard(e.to_string()))?;
        let (mut store, guard) = mmp::claimed(device, options, mmp::claim::Why::Open, |device| {
            Home::open(device, options, None).map(|opened| opened.store)
        })?;
        store.life.mmp = guard;
        let store = store.start(options)?;
        store.note_mmp()?;
        Ok(store)
    }

    /// From here on others may use it.
    pub(crate) fn start(self, options: &StoreOptions) -> Result<Arc<Store>, Error> {
        let store = Arc::new(self);
        if options.background && !options.read_only {
            store.spawn()?;
        }
        Ok(store)
    }

    /// All parts in their first state, with the superblock's map and an empty cache.
    pub(crate) fn build(
        device: Arc<dyn Device>,
        sb: Superblock,
        o: &StoreOptions,
        frames_needed: u64,
    ) -> Result<Store, Error> {
        let mut pool = Pool::of(&sb);
        pool.protect = o.protect.unwrap_or(pool.protect);
        let device = Arc::new(Switch::new(device));
        let frames = Frames::new(o, pool.protect, frames_needed)?;
        let home = Home::of(&sb, &pool, o, &frames)?;
        Ok(Store {
            life: Life::begin(o, home.memory().incarnation())?,
            txns: Transactions::new(o, frames.arena.count())?,
            alloc: Allocators::of(&pool),
            watch: Watch::new(o, &pool, &device)?,
            frames,
            home,
            device,
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
            self.life.unless_read_only()?;
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
                    self.home.relieve(self, what)?;
                }
                Stop::Error(e) => return Err(e.into()),
            }
            if pins.len() > 2 * self.txns.frames_max {
                pins.clear();
            }
        }
    }

    /// Starts the threads of the background.
    pub(crate) fn spawn(self: &Arc<Store>) -> Result<(), Error> {
        self.home.spawn_threads(self)?;
        history::spawn(self)
    }

    fn stop_threads(&self) {
        self.home.stop_threads();
        self.watch.events.history.stop();
    }

    /// The threads hold the device while they work: whoever closed the pool may open it again at once.
    pub(crate) fn end_threads(&self) {
        self.stop_threads();
        self.home.join_threads();
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
        self.watch.stats.snapshot()
    }

    /// As if power were cut: nothing reaches the device any more, every call fails from here on.
    pub fn kill(&self) {
        self.stop_threads();
        self.device.turn_off();
        if let Some(guard) = &self.life.mmp {
            guard.abandon();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(guard) = &self.life.mmp {
            guard.end();
        }
        self.end_threads();
    }
}
