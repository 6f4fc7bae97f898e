//! Checkpoints: the whole state of one moment, copy-on-write, committed by one superblock (SPEC section 10;
//!
//!
//! Order: lead, barrier, old group and carried tails to the log, flush, lead given away, metablocks, HOMES and map pages,
//! flush, superblock, flush, map in memory, quarantine released. New transactions run beside all of it but the barrier.

mod barrier;
mod plan;
mod settings;
mod shrink;
mod write;

use crate::error::Error;
use crate::events::Done;
use crate::ladder::LogStart;
use crate::locks::Mutex;
use crate::map::BadCopy;
use crate::moment::{Deaths, Dirty, Stash};
use crate::pool::Pool;
use crate::rewrites::Rewrites;
use crate::sync::Lead;
use crate::wanted::Wanted;
use crate::{Flash, Store, map, pool};
use barrier::Moment;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use keepfs_codes::crc64;
use keepfs_flash::homes::Homes;
use keepfs_flash::log::{self, Head, Stamp};
use keepfs_flash::watched::{Watched, WatchedList};
use keepfs_format::map::{DEAD, LIVE, MapEntry};
use keepfs_format::plog::Record;
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Header, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_vault::planted::{self, Bug, Point};
use plan::Plan;
use shrink::Shrink;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What only the checkpointer touches.
pub struct Keeper {
    /// The superblock in force, or, while settings change, what it shall be; read by [`Store::superblock_in_force`].
    pub superblock: Watched<Superblock>,
    /// Pages that hold metadata.
    pub homes: Homes,
}

impl Keeper {
    /// A superblock as it is kept: without its CRC, since the sum of bytes that end with their CRC is always the same.
    pub fn of(superblock: &Superblock) -> Watched<Superblock> {
        Watched::new(0, Keeper::plain(superblock))
    }

    /// The superblock without its CRC.
    pub fn plain(superblock: &Superblock) -> Superblock {
        Superblock {
            crc: 0.into(),
            ..*superblock
        }
    }
}

/// Checkpoints, and what waits for one.
pub struct Checkpoints {
    /// The one in force.
    pub keeper: Mutex<Keeper>,
    /// As the superblock in force tells it; who asks waits for no checkpoint.
    pub in_force: Mutex<Pool>,
    /// When it was written.
    pub at: Mutex<Instant>,
    /// Why the state that was opened may not be the newest (S-21.22).
    pub superblocks_lost: OnceLock<String>,
    /// Counts them; frames remember in which one they became dirty.
    pub epoch: AtomicU64,
    /// What became dirty since the last moment.
    pub dirty: Mutex<WatchedList<Dirty>>,
    /// Metablocks that died and whose death is in no checkpoint yet.
    pub deaths: Deaths,
    /// Indices of INODES metablocks of which an inode was freed.
    pub emptied: Mutex<BTreeSet<u64>>,
    /// Copies of frames as of the moment.
    pub stash: Stash,
    /// Frames whose content is being written.
    pub in_flight: AtomicU64,
    /// Copies on the device that are bad, or lie where they shall not.
    pub bad_copies: Mutex<Vec<BadCopy>>,
    /// A scrub has marked what is to be written elsewhere, and no checkpoint has done so since.
    pub moves: AtomicBool,
    /// Map pages that the next one writes anew.
    pub rewrites: Rewrites,
    /// Most metablocks and map pages that wait for one (SPEC S-10.5).
    pub rewrite_limit: u64,
    /// The same, but no more than the free pages of the pool allow now.
    pub rewrite_now: AtomicU64,
    /// The thread that writes them.
    pub wanted: Arc<Wanted>,
}

impl Checkpoints {
    /// One is in force, of this superblock. At most so much waits for the next.
    pub fn of(sb: &Superblock, rewrite_limit: u64) -> Checkpoints {
        Checkpoints {
            keeper: Mutex::new(Keeper {
                superblock: Keeper::of(sb),
                homes: Homes::default(),
            }),
            in_force: Mutex::new(Pool::of(sb)),
            at: Mutex::new(Instant::now()),
            superblocks_lost: OnceLock::new(),
            epoch: AtomicU64::new(1),
            dirty: Mutex::default(),
            deaths: Deaths::default(),
            emptied: Mutex::default(),
            stash: Stash::default(),
            in_flight: AtomicU64::new(0),
            bad_copies: Mutex::default(),
            moves: AtomicBool::new(false),
            rewrites: Rewrites::default(),
            rewrite_limit,
            rewrite_now: AtomicU64::new(u64::MAX),
            wanted: Arc::default(),
        }
    }
}

/// What a checkpoint shall be besides an ordinary one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// The pool is closed with it.
    pub clean: bool,
    /// It ends a recovery: a new life of the log begins.
    pub new_log: Option<NewLog>,
}

/// A new life of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewLog {
    /// Where it begins.
    pub head: Head,
    /// By how much its incarnation is greater than that of the log before.
    pub lives: u64,
}

/// What a superblock tells besides the plan, read once: others may change it while one is made.
struct Beside {
    tail: Head,
    incarnation: u64,
    durable: u64,
    zones: [u64; 2],
}

impl Flash {
    /// See [`Store::checkpoint`].
    pub(crate) fn checkpoint(&self, store: &Store) -> Result<(), Error> {
        store.alive()?;
        let mut keeper = self.checkpoints.keeper.lock();
        // Looked at under the lock: who waited for it may find the pool at rest (S-20.21).
        let done = match store.life.is_read_only() {
            true => {
                self.checkpoints.wanted.done();
                Ok(())
            }
            false => self.checkpoint_with(store, &mut keeper, Wish::default()),
        };
        drop(keeper);
        store.keep_history();
        done
    }

    /// The superblock in force. One that something else changed is read from the device; Errors: it is not there either
    /// (settings were about to change), and writing has ended.
    pub(crate) fn superblock_in_force(&self, store: &Store, keeper: &mut Keeper) -> Result<Superblock, Error> {
        let stray = match keeper.superblock.get(0) {
            Ok(superblock) => return Ok(superblock),
            Err(stray) => stray,
        };
        let mut written = pool::superblocks(&*store.device)
            .into_iter()
            .map(|sb| Keeper::plain(&sb));
        let Some(superblock) = written.find(|sb| keeper.superblock.was(0, sb)) else {
            return Err(store.fail(stray.into()));
        };
        store
            .watch
            .events
            .tell_heap(stray.address, Done::ReadAgain, "the superblock in force");
        keeper.superblock = Keeper::of(&superblock);
        Ok(superblock)
    }

    /// A checkpoint with a wish. Errors after the barrier end writing to the pool. Lock order: keeper, lead.
    pub(crate) fn checkpoint_as(&self, store: &Store, wish: Wish) -> Result<(), Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        self.checkpoint_with(store, &mut keeper, wish)
    }

    /// The same for whoever has the keeper.
    pub(crate) fn checkpoint_with(&self, store: &Store, keeper: &mut Keeper, wish: Wish) -> Result<(), Error> {
        // Where it fails before it is given away, nobody may lead before the failure ends writing.
        let mut lead = Some(self.log.sync.lead());
        let result = self.checkpoint_locked(store, keeper, wish, &mut lead);
        self.checkpoints.wanted.done();
        match result {
            Err(Error::NoSpace) => Err(Error::NoSpace),
            Err(e) => Err(store.fail(e)),
            Ok(()) => Ok(()),
        }
    }

    fn checkpoint_locked<'s>(
        &self,
        store: &'s Store,
        keeper: &mut Keeper,
        wish: Wish,
        lead: &mut Option<Lead<'s>>,
    ) -> Result<(), Error> {
        let moment = self.moment(store, keeper, wish, lead)?;
        let generation = self.superblock_in_force(store, keeper)?.generation.get() + 1;
        let log_part = self.write_log_part(store, &moment, wish, generation, lead);
        self.staged.table.lock().carry_done();
        let (tail, log_written) = log_part?;
        if planted::is(Bug::LogTruncatedEarly) {
            self.log.end.lock().tail = tail.sequence;
        }
        let mut plan = Plan::new(self, store, keeper.homes.clone())?;
        self.write_metablocks(store, &moment, &mut plan)?;
        moment.rewrite.iter().try_for_each(|id| plan.rewrite_map_page(*id))?;
        plan.finish()?;
        if planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device(store)?;
            self.write_batch(store, &mut core::mem::take(&mut plan.late))?;
        }
        let beside = self.beside(store, tail, log_written);
        let superblock = self.next_superblock(store, keeper, &plan, &moment, &beside, wish)?;
        if self.next_superblock(store, keeper, &plan, &moment, &beside, wish)? != superblock {
            return Err(Error::Damaged(
                "the superblock to come was changed while it was made".into(),
            ));
        }
        if !planted::is(Bug::NoFlushBeforeSuperblock) && !planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device(store)?;
        }
        self.put_superblock(store, &superblock)?;
        self.install(store, keeper, plan, superblock, &moment, tail);
        Ok(())
    }

    /// The moment, with room for all that it has (S-10.4). Errors: `NoSpace`; nothing is lost then.
    fn moment(&self, store: &Store, keeper: &mut Keeper, wish: Wish, lead: &Option<Lead<'_>>) -> Result<Moment, Error> {
        // Where a new log begins, no group can be written before.
        let lead = lead.as_ref().filter(|_| wish.new_log.is_none());
        loop {
            let chunks = self.prepare_chunks(store, keeper, lead)?;
            let shrink = match chunks.runs().is_empty() && wish.new_log.is_none() {
                true => self.plan_shrink(store, keeper)?,
                false => Shrink::default(),
            };
            // Where too much was changed since the room was made, the gate is open again: more room is made.
            if let Some(moment) = self.barrier(store, keeper, chunks, shrink)? {
                return Ok(moment);
            }
            store.watch.stats.barriers_withdrawn.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Transactions before the moment go to the old log, staged pages to the first group of the new one. Returns
    /// where the new log begins, and the last group written. The lead is given away when the old group is flushed
    /// (S-10.6): that is a sync of the moment. If transactions could not be logged it is kept: then nobody may cut a group
    /// before the superblock of `generation` is there (S-10.7).
    fn write_log_part<'s>(
        &self,
        store: &'s Store,
        moment: &Moment,
        wish: Wish,
        generation: u64,
        lead: &mut Option<Lead<'s>>,
    ) -> Result<(Head, u64), Error> {
        if let Some(NewLog { head, lives }) = wish.new_log {
            let mut state = self.log.end.lock();
            // The log of the superblock in force is needed until the next one is flushed: both moved on by one ring.
            state.head = head;
            state.tail += store.pool.log.pages;
            state.incarnation = (state.incarnation + lives) % pool::COUNT_MAX;
        }
        let before = self.log.end.lock().head;
        let mut is_logged = wish.new_log.is_none();
        if is_logged {
            if !moment.pending.is_empty() {
                let old = self.unless_redo_is_damaged(store, self.prepare(store, &moment.pending))?;
                is_logged = self.write_whole_group(store, old.filter(|old| self.log_has_room(store, old.pages())))?;
            }
            let mut state = self.log.end.lock();
            is_logged &= !core::mem::take(&mut state.is_broken);
            if !is_logged && !planted::is(Bug::CarriedBehindNothing) {
                state.begin_chain(generation);
            }
        }
        let mut tail = self.log.end.lock().head;
        if !moment.carried.is_empty() && !planted::is(Bug::CarryOmitted) {
            let begun = self.write_carried(store, moment, wish.new_log.is_some(), generation)?;
            // Behind a page that was given up they are in a chain of their own, too.
            is_logged &= begun == tail;
            tail = begun;
        }
        if planted::is(Bug::OldGroupInNewLog) {
            tail = before;
        }
        let mut state = self.log.end.lock();
        state.written_seq = state.written_seq.max(moment.seq);
        let written = state.head.group.saturating_sub(1);
        let is_flushed = state.with_records <= state.durable;
        drop(state);
        if is_logged {
            if !is_flushed && !planted::is(Bug::LeadGivenEarly) {
                self.flush_log(store)?;
            }
            *lead = None;
        }
        Ok((tail, written))
    }

    /// Staged pages whole, in a group of their own (S-10.3), behind what had to be given up (S-8.14). Returns where they begin.
    fn write_carried(&self, store: &Store, moment: &Moment, recovers: bool, generation: u64) -> Result<Head, Error> {
        let mut payload = Vec::new();
        for carried in &moment.carried {
            let mut record = carried.record(&self.log.segment);
            if matches!(record, Record::Lost { .. }) {
                match self.mend_carried(store, carried, moment.seq) {
                    Some(mended) => record = mended,
                    None => self.lose_carried(store, carried),
                }
            }
            record.encode(&mut payload);
        }
        let mut state = self.log.end.lock();
        let (most, whole, bare) = (
            store.pool.log.pages,
            log::pages_of_carried(payload.len()),
            log::pages_of(payload.len()),
        );
        // Parity is left out where there is no room for it (S-10.3).
        let mut pages = if state.head.sequence - state.tail + whole > most {
            bare
        } else {
            whole
        };
        if state.head.sequence - state.tail + pages > most {
            // The limit of staged pages and the room kept in the log for them exclude it (S-10.8).
            if !recovers || pages > most {
                return Err(Error::Logic("the log cannot hold the staged pages".into()));
            }
            // But in a log that was written by a version that kept less room.
            tracing::warn!("the log is too full for the staged pages: this recovery must not be cut");
        }
        let stamp = Stamp {
            incarnation: state.incarnation,
            durable: state.durable,
            base: state.base,
            seq: moment.seq,
            flags: 0,
        };
        loop {
            let before = state.head;
            let mut head = before;
            let (device, region) = (&*store.device, &store.pool.log);
            let written = match pages == whole {
                true => log::append_carried(device, region, &mut head, &stamp, &payload),
                false => {
                    log::append_pages(device, region, &mut head, &stamp, &payload, bare, &mut Vec::new()).map(drop)
                }
            };
            let Err(error) = written else {
                state.wrote();
                state.head = head;
                state.written = before.group;
                let bytes = pages * PAGE as u64;
                store.watch.stats.bytes_checkpoint.fetch_add(bytes, Ordering::Relaxed);
                return Ok(before);
            };
            let behind = if recovers {
                0
            } else {
                self.log.carry_room.saturating_sub(whole - bare)
            };
            let used = head.sequence - state.tail + behind;
            pages = if used + whole > most { bare } else { whole };
            if used + pages > most || !state.give_up(head.sequence, &error) {
                return Err(error.into());
            }
            state.is_broken = false;
            state.begin_chain(generation);
            crate::locks::AwaitedGuard::unlocked(&mut state, || self.tell_given_up(store, before.group, &error));
        }
    }

    fn next_superblock(
        &self,
        store: &Store,
        keeper: &mut Keeper,
        plan: &Plan<'_>,
        moment: &Moment,
        beside: &Beside,
        wish: Wish,
    ) -> Result<Superblock, Error> {
        let mut sb = self.superblock_in_force(store, keeper)?;
        sb.generation = (sb.generation.get() + 1).into();
        // S-2.10
        sb.incompat = (sb.incompat.get() | superblock::INCOMPAT_STRIPES).into();
        sb.seq = moment.seq.into();
        sb.roots = map::roots(&plan.roots)?;
        sb.log_seq = beside.tail.sequence.into();
        sb.group = beside.tail.group.into();
        sb.chain = beside.tail.chain.into();
        sb.incarnation = beside.incarnation.into();
        sb.durable = beside.durable.into();
        sb.state = if wish.clean {
            superblock::CLEAN
        } else {
            superblock::OPEN
        }
        .into();
        (sb.zone_current, sb.zone_next) = (beside.zones[0].into(), beside.zones[1].into());
        Ok(sb)
    }

    /// Read once for a superblock: syncs and writers go on.
    fn beside(&self, store: &Store, tail: Head, log_written: u64) -> Beside {
        let state = self.log.end.lock();
        let (incarnation, durable) = (state.incarnation, log_written.max(state.durable));
        drop(state);
        Beside {
            tail,
            incarnation,
            durable,
            zones: store.zones_wanted(),
        }
    }

    /// The commit point: one slot, flush; then its copy without a flush of its own (S-2.1, S-10.2).
    fn put_superblock(&self, store: &Store, sb: &Superblock) -> Result<(), Error> {
        let bytes = pool::superblock_bytes(sb);
        let slots = superblock::slots_of(sb.generation.get());
        for (i, slot) in slots.into_iter().enumerate() {
            let slot = if planted::is(Bug::SuperblockInPlace) { 0 } else { slot };
            let page = PageNo(superblock::slot_page(slot, store.pool.slots_by));
            store.device.write(page, &bytes[..], Class::Superblock)?;
            planted::step(Point::SuperblockWritten);
            if i == 0 && !planted::is(Bug::NoSecondFlush) {
                store.device.flush()?;
                planted::step(Point::SuperblockFlushed);
            }
        }
        match bytes == pool::superblock_bytes(sb) {
            true => Ok(()),
            false => Err(Error::Damaged("a superblock was changed while it was written".into())),
        }
    }

    /// The superblock is durable: memory follows, and what the checkpoint freed may be used.
    fn install(
        &self,
        store: &Store,
        keeper: &mut Keeper,
        plan: Plan<'_>,
        superblock: Superblock,
        moment: &Moment,
        tail: Head,
    ) {
        let mut roots = self.map.roots.write();
        *roots = map::watched(&superblock.roots);
        self.map.stray_told.store(false, Ordering::Relaxed);
        for (id, bytes, crc) in &plan.kept {
            if let Some(pin) = store.frames.cache.pin(*id) {
                store.frames.arena.refill(pin.frame, bytes, *crc);
            }
        }
        // Map pages are looked at under the lock of the roots only: nobody holds one of these.
        for id in &plan.dropped {
            if let Some(pin) = store.frames.cache.pin(*id) {
                store.frames.cache.remove(*id, pin);
            }
        }
        drop(roots);
        for (id, frame) in &plan.flying {
            let slot = store.frames.cache.slot(*frame);
            let mut state = slot.state.lock();
            if slot.id() == *id {
                state.in_flight = false;
            }
            self.checkpoints.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        self.checkpoints.deaths.arrived();
        self.install_log(&superblock, tail);
        let zones = [superblock.zone_current.get(), superblock.zone_next.get()];
        keeper.superblock = Keeper::of(&superblock);
        keeper.homes = plan.homes;
        keeper.homes.arrived();
        store.alloc.space.left(|run| store.alloc.system.remove(run));
        self.release_up_to(store, moment.seq);
        self.log.sync.reached(moment.seq);
        if let Err(error) = store.open_zones(zones) {
            store.fail(error);
        }
        self.checkpoints.rewrites.installed();
        self.checkpoints.moves.store(false, Ordering::Relaxed);
        self.set_reserve(store, &keeper.homes);
        // What cannot be told is not counted on; the next checkpoint tells it.
        store
            .alloc
            .space
            .set_spare(self.coming_back(store, keeper).unwrap_or(0));
        *self.checkpoints.at.lock() = std::time::Instant::now();
        store.watch.stats.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    fn install_log(&self, superblock: &Superblock, tail: Head) {
        let mut state = self.log.end.lock();
        state.tail = tail.sequence;
        state.base = superblock.generation.get();
        state.start = LogStart::of(superblock);
        state.durable = state.durable.max(superblock.durable.get());
        // The superblock tells it too (S-9.2), so no empty group needs to.
        state.told = state.told.max(superblock.durable.get());
    }
}

/// A live entry for `content`.
fn live_entry(first: u64, second: u64, content: &[u8; PAGE]) -> Result<MapEntry, Error> {
    let (header, _) = Header::read_from_prefix(content).map_err(|e| Error::Logic(e.to_string()))?;
    Ok(MapEntry {
        first: first.into(),
        second: second.into(),
        crc: crc64::full(content).into(),
        generation: header.generation,
        kind: header.kind,
        state: LIVE,
        reserved: 0.into(),
    })
}

/// A dead entry.
fn dead_entry(generation: u32) -> MapEntry {
    MapEntry {
        generation: generation.into(),
        state: DEAD,
        ..MapEntry::default()
    }
}

#[cfg(test)]
pub(crate) mod tests;
