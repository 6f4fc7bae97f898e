//! The store in its parts, and what composes them: a pool is made, opened, changed by transactions, ended.

use crate::alloc::Allocators;
use crate::error::{Abort, Error, Pressure, Stop, stopped};
use crate::home::{Home, Settling};
use crate::inject::Structure;
use crate::life::Life;
use crate::noted::News;
use crate::remains::{self, Remains};
use crate::reserve::{self, Promised, Reservation};
use crate::resume::{self, Resumed};
use crate::space::{Near, Purpose};
use crate::transactions::Transactions;
use crate::txn::Txn;
use crate::watch::Watch;
use crate::{mmp, zones};
use core::sync::atomic::Ordering;
use keepfs_flash::checkpoint::Wish;
use keepfs_format::MetaId;
use keepfs_format::PAGE;
use keepfs_format::map::LIVE;
use keepfs_format::plog::Run;
use keepfs_format::superblock::{self, Superblock};
use keepfs_frames::Frames;
use keepfs_frames::Pin;
use keepfs_frames::scratch::with_page;
use keepfs_media::{Class, Device, PageNo};
use keepfs_pool::StoreOptions;
use keepfs_pool::stats::Snapshot;
use keepfs_pool::switch::Switch;
use keepfs_pool::switch::{DeviceFault, DeviceOp, Injection};
use keepfs_pool::{FormatOptions, Ground, Pool};
use std::sync::Arc;

/// Checkpoints that a transaction waits for, because too much waits for one, before it is let through.
const CHECKPOINTS_FOR_ONE: u32 = 3;

/// An open pool.
pub struct Store {
    /// What the others stand on.
    pub(crate) ground: Arc<Ground>,
    /// What this life goes on with.
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
        let sb = keepfs_pool::first_superblock(&*device, o)?;
        let blank = [0; PAGE];
        for slot in 0..superblock::SLOTS {
            let page = superblock::slot_page(slot, sb.pages.get());
            device.write(PageNo(page), &blank, Class::Superblock)?;
        }
        let pool = Pool::of(&sb);
        keepfs_pool::mmp::write_first(&*device, &pool, o.mmp_interval_s)?;
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
        let fixed = keepfs_pool::fixed_runs(&store.ground.pool);
        let used = fixed.iter().map(|r| u64::from(r.count)).sum();
        let open = [0, 1].map(|n| {
            zones::zone_with(&store.ground.pool, n, &|page| {
                fixed
                    .iter()
                    .any(|r| (r.start..r.start + u64::from(r.count)).contains(&page))
            })
        });
        store.alloc.space.start(store.ground.pool.pages, 0, open);
        store.home.flash().load_totals(&store.frames)?;
        store.alloc.space.used(used);
        store.allocate_fixed(&fixed)?;
        let closed = Wish {
            clean: true,
            new_log: None,
        };
        store.home.settle(&store, Settling::Goes(Some(closed))).map(drop)
    }

    fn allocate_fixed(&self, fixed: &[Run]) -> Result<(), Error> {
        for run in fixed {
            let mut at = run.start;
            let end = run.start + u64::from(run.count);
            while at < end {
                let count = (end - at).min(8192) as u32;
                let part = Run { start: at, count };
                let _pins = self.home.flash().pin_bits(self, part)?;
                let mut txn = Txn::begin_unlogged(self);
                txn.use_pages(part).map_err(stopped)?;
                txn.seal().map_err(stopped)?.commit();
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
        let (mut store, guard) = mmp::claimed(device, options.claimant(), mmp::claim::Why::Open, |device| {
            Home::recover(device, options, None).map(|opened| opened.store)
        })?;
        store.life.mmp = guard;
        let store = store.start(options)?;
        mmp::note(&store)?;
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
        let ground = Arc::new(Ground::of(Arc::new(Switch::new(device)), pool, o));
        let frames = Frames::new(ground.clone(), frames_needed)?;
        let home = Home::of(&sb, &frames)?;
        Ok(Store {
            life: Life::begin(o, home.memory().incarnation())?,
            txns: Transactions::new(frames.arena.count()),
            alloc: Allocators::of(&ground.pool),
            watch: Watch::new(o, &ground.pool)?,
            frames,
            home,
            ground,
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
            self.ground.unless_read_only()?;
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
                    self.home.pressure(self, Some(what))?;
                }
                Stop::Error(e) => return Err(e.into()),
            }
            if pins.len() > 2 * self.txns.frames_max {
                pins.clear();
            }
        }
    }

    /// Makes everything durable, writes a last checkpoint, marks the pool as closed properly.
    pub fn close(&self) -> Result<(), Error> {
        self.end_threads();
        let settled = self.home.settle(self, Settling::Closed).map(drop);
        self.ground.keep_history();
        if let Some(guard) = &self.life.mmp {
            guard.leave();
        }
        settled
    }

    /// As [`Store::settle`], and nothing is written behind it until [`Store::begin_writing`] (S-20.21): changes are refused.
    /// Nothing happens if it rests already or was opened read-only. Errors: those of a checkpoint; it is written on then. What ended
    /// writing before, of whichever life: not everything is on the device.
    pub fn rest(&self) -> Result<(), Error> {
        if self.home.settle(self, Settling::Rests)? {
            // Whoever writes it at this moment has ended then.
            self.ground.write_history();
        }
        Ok(())
    }

    /// A pool that was opened read-only is written from here on, as if it had been opened so: the log that was applied in
    /// memory is recovered on the device first (S-9.5). One that rests goes on. Nothing happens if it is written already.
    /// Errors: the device cannot be had alone, or has changed since; S-2.5; those of a checkpoint. Then it stays read-only.
    pub fn begin_writing(self: &Arc<Store>) -> Result<(), Error> {
        match self.home.begin_writing(self)? && self.ground.options.background {
            true => self.spawn(),
            false => Ok(()),
        }
    }

    /// Whether a transaction may begin; waits while there is no room for what it changes.
    pub(crate) fn ready(&self) -> Result<(), Error> {
        self.ground.alive()?;
        self.ground.unless_read_only()?;
        self.home.pressure(self, None)
    }

    /// Brings the metablock in which an inode would be made. `None`: it cannot be read, and nobody gets a number of it (S-15.17).
    pub(crate) fn cradle(&self, id: MetaId) -> Result<Option<Pin<'_>>, Error> {
        match self.fetch(id) {
            Err(error) if error.is_of_one() => {
                self.alloc.inos.avoid(id.index());
                Ok(None)
            }
            fetched => fetched.map(Some),
        }
    }

    /// Where a metablock lies. With `at_rest` everything that waits for a checkpoint is written first, so that its pages
    /// are those that the next mount reads. Errors: `BadPool`: this is no pool for tests; there is no such metablock.
    pub fn structure(&self, id: MetaId, at_rest: bool) -> Result<Structure, Error> {
        self.for_tests()?;
        if at_rest {
            self.home.settle(self, Settling::Goes(None))?;
        }
        let pin = self.fetch(id)?;
        with_page(|copy| self.verified_copy(&pin, copy))?;
        let entry = self.home.locate(&self.frames, id)?.filter(|entry| entry.state == LIVE);
        Ok(Structure {
            id,
            frame: pin.frame,
            arena: self.frames.arena.shown_address(),
            pages: entry.map_or([0; 2], |entry| [entry.first.get(), entry.second.get()]),
        })
    }

    /// The next `count` operations of this kind have a fault; its number. Errors: `BadPool`.
    pub fn inject_device(&self, op: DeviceOp, fault: DeviceFault, count: u64) -> Result<u64, Error> {
        self.for_tests()?;
        Ok(self.ground.device.injected().add(op, fault, count))
    }

    /// Faults that still wait for their operations.
    pub fn injections(&self) -> Vec<Injection> {
        self.ground.device.injected().all()
    }

    /// Takes back the one with this number, or all. How many there were.
    pub fn cancel_injections(&self, number: Option<u64>) -> usize {
        self.ground.device.injected().cancel(number)
    }

    /// Somebody takes note of all that was told until now (`keepfs damage clear`). Returns how many entries the list of damages had.
    pub fn take_note(&self) -> usize {
        let mut noted = self.watch.noted.lock();
        noted.take(self.device_errors(), self.stats(), self.log_mended().len());
        drop(noted);
        self.history().clear_damage()
    }

    /// How often [`Store::take_note`] was called since the pool was opened: what is damaged still, and met again behind it, is told again.
    pub fn times_noted(&self) -> u64 {
        self.watch.noted.lock().times()
    }

    /// What is to be told of how the pool is, beside what is damaged now.
    pub fn news(&self) -> News {
        let noted = self.watch.noted.lock();
        noted.news(self.device_errors(), self.stats(), self.log_mended().len())
    }

    /// The memory that a restarted server needs, of a store opened with `lasting`; without, and of a store that took over
    /// from a dead one and may not write, what stands for it (S-16.6). Errors: `Memory`.
    pub fn remains(&self) -> Result<Remains, Error> {
        remains::of(self)
    }

    /// Seconds of the interval in which this machine shows that it has the pool (S-2.12). `None`: nobody is asked.
    pub fn mmp(&self) -> Option<u32> {
        self.life.mmp.as_ref()?.interval_s()
    }

    /// Ends writing if this machine has lost the pool, which who writes nothing does not notice.
    pub fn look_at_claim(&self) {
        let lost = self.life.mmp.as_ref().and_then(|guard| guard.lost());
        if let Some(lost) = lost {
            self.end_writing(lost.into());
        }
    }

    /// The nonce of this claim, if the pool has a block for one.
    pub fn mmp_nonce(&self) -> Option<[u8; 16]> {
        self.life.mmp.as_ref().map(|guard| guard.nonce())
    }

    /// What the block says that shows who has the pool, as it is on the device. `None`: the pool has none.
    pub fn mmp_seen(&self) -> Option<mmp::block::Seen> {
        self.life.mmp.as_ref().map(|guard| guard.seen())
    }

    /// From here on the pool shows in each interval of so many seconds that this machine has it, or with `None` does not. Returns
    /// whether that is a change.
    ///
    /// Errors: `ReadOnly`; `BadPool`, the pool has no block for it; another machine has it; those of the device and of a checkpoint.
    pub fn set_mmp(&self, interval_s: Option<u32>) -> Result<bool, Error> {
        mmp::set(self, interval_s)
    }

    /// Number `ino` is handed out to nobody while this server lives (S-16.19). If an inode has it, that goes on.
    pub fn keep_number(&self, ino: u64) {
        self.alloc.inos.keep(ino);
    }

    /// Opens the pool of a server that died (its process is gone) with what it left (S-16.5). `raise` counts the lookup of an
    /// inode that a reply names which is to be sent again. With `read_only`, or if the device had failed, nothing is written
    /// and [`Store::remains`] stays what it was.
    ///
    /// Errors: as [`Store::open`], but for what only writers need, without which writing has ended (Z-3). Memory that cannot be
    /// used is no error: what it held is told as lost.
    pub fn resume(
        device: Arc<dyn Device>,
        options: &StoreOptions,
        remains: Remains,
        raise: impl FnMut(u64),
    ) -> Result<(Arc<Store>, Resumed), Error> {
        resume::resume(device, options, remains, raise)
    }

    /// The next checkpoint lists other zones, full or not; for tests of the switch.
    pub fn want_other_zones(&self) {
        self.alloc.switch_zones.store(true, Ordering::Release);
    }

    /// Keeps `pages` for who is about to free all of them but `new`, and to take as many. Errors: [`Error::NoSpace`] if `new`
    /// pages cannot be had.
    pub fn promise(&self, pages: u64, new: u64) -> Result<Promised<'_>, Error> {
        match self.alloc.space.promise_for(pages, new) {
            true => Ok(Promised::of(self, pages)),
            false => Err(Error::NoSpace),
        }
    }

    /// Picks `pages` free pages, in the open zones and in as few runs as they offer. What is in quarantine is set free
    /// by a sync if need be; full zones are switched with a checkpoint; the last pages of a pool come from any zone.
    /// Call it outside transactions. Errors: [`Error::NoSpace`] only if there are not so many (S-11.4).
    pub fn reserve(&self, pages: u32, purpose: Purpose, near: Near) -> Result<Reservation<'_>, Error> {
        reserve::reserve(self, pages, purpose, near)
    }

    /// The device refused to write this allocated page: once it is free, nobody is given it while the pool is open.
    pub fn refuse(&self, page: u64) {
        self.alloc.space.refused(page);
        reserve::tell_refused(page);
    }

    /// Starts the threads of the background.
    pub(crate) fn spawn(self: &Arc<Store>) -> Result<(), Error> {
        self.home.spawn(self)?;
        self.ground.spawn_history()
    }

    fn stop_threads(&self) {
        self.home.close(false);
        self.ground.events.history.stop();
    }

    /// The threads hold the device while they work: whoever closed the pool may open it again at once.
    pub(crate) fn end_threads(&self) {
        self.stop_threads();
        self.home.close(true);
    }

    /// The pool's constants.
    pub fn pool(&self) -> &Pool {
        &self.ground.pool
    }

    /// Key of the name hash.
    pub fn name_seed(&self) -> [u64; 2] {
        self.ground.pool.name_seed
    }

    /// Counters.
    pub fn stats(&self) -> Snapshot {
        self.ground.stats.snapshot()
    }

    /// As if power were cut: nothing reaches the device any more, every call fails from here on.
    pub fn kill(&self) {
        self.stop_threads();
        self.ground.device.turn_off();
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
