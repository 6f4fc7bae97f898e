//! Checkpoints: the whole state of one moment, copy-on-write, committed by one superblock (SPEC section 10;
//!
//!
//! Order: lead, barrier, old group and carried tails to the log, flush, lead given away, metablocks, HOMES and map pages,
//! flush, superblock, flush, map in memory, quarantine released. New transactions run beside all of it but the barrier.

mod barrier;
mod plan;
mod shrink;
mod write;

use crate::error::Error;
use crate::homes::Homes;
use crate::ladder::LogStart;
use crate::log::{self, Head, Stamp};
use crate::sync::Lead;
use crate::watched::Watched;
use crate::{Store, map, pool};
use barrier::Moment;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{DEAD, LIVE, MapEntry};
use keepfs_format::plog::Record;
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Header, MetaId, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_vault::arena::FrameNo;
use keepfs_vault::planted::{self, Bug, Point};
use plan::Plan;
use shrink::Shrink;

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

/// What a superblock tells that others may change while it is made.
struct Beside {
    incarnation: u64,
    durable: u64,
    zones: [u64; 2],
}

impl Store {
    /// Writes a checkpoint now; none of a pool that is read-only.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.alive()?;
        let mut keeper = self.keeper.lock();
        // Looked at under the lock: who waited for it may find the pool at rest (S-20.21).
        let done = match self.is_read_only() {
            true => {
                self.wanted.done();
                Ok(())
            }
            false => self.checkpoint_with(&mut keeper, Wish::default()),
        };
        drop(keeper);
        self.keep_history();
        done
    }

    /// A checkpoint with a wish. Errors after the barrier end writing to the pool. Lock order: keeper, lead.
    pub(crate) fn checkpoint_as(&self, wish: Wish) -> Result<(), Error> {
        let mut keeper = self.keeper.lock();
        self.checkpoint_with(&mut keeper, wish)
    }

    /// The same for whoever has the keeper.
    pub(crate) fn checkpoint_with(&self, keeper: &mut Keeper, wish: Wish) -> Result<(), Error> {
        // Where it fails before it is given away, nobody may lead before the failure ends writing.
        let mut lead = Some(self.sync.lead());
        let result = self.checkpoint_locked(keeper, wish, &mut lead);
        self.wanted.done();
        match result {
            Err(Error::NoSpace) => Err(Error::NoSpace),
            Err(e) => Err(self.fail(e)),
            Ok(()) => Ok(()),
        }
    }

    fn checkpoint_locked<'s>(
        &'s self,
        keeper: &mut Keeper,
        wish: Wish,
        lead: &mut Option<Lead<'s>>,
    ) -> Result<(), Error> {
        let moment = self.moment(keeper, wish, lead)?;
        let generation = self.superblock_in_force(keeper)?.generation.get() + 1;
        let log_part = self.write_log_part(&moment, wish, generation, lead);
        self.staged_table.lock().carry_done();
        let (tail, log_written) = log_part?;
        if planted::is(Bug::LogTruncatedEarly) {
            self.log.lock().tail = tail.sequence;
        }
        let mut plan = Plan::new(self, keeper.homes.clone())?;
        let mut flying = Vec::new();
        self.write_metablocks(&moment, &mut plan, &mut flying)?;
        moment.rewrite.iter().try_for_each(|id| plan.rewrite_map_page(*id))?;
        plan.finish()?;
        if planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device()?;
            self.write_batch(&mut core::mem::take(&mut plan.late))?;
        }
        let beside = self.beside(log_written);
        let superblock = self.next_superblock(keeper, &plan, &moment, tail, &beside, wish)?;
        if self.next_superblock(keeper, &plan, &moment, tail, &beside, wish)? != superblock {
            return Err(Error::Damaged(
                "the superblock to come was changed while it was made".into(),
            ));
        }
        if !planted::is(Bug::NoFlushBeforeSuperblock) && !planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device()?;
        }
        self.put_superblock(&superblock)?;
        self.install(keeper, plan, superblock, &moment, tail, &flying);
        Ok(())
    }

    /// The moment, with room for all that it has (S-10.4). Errors: `NoSpace`; nothing is lost then.
    fn moment(&self, keeper: &mut Keeper, wish: Wish, lead: &Option<Lead<'_>>) -> Result<Moment, Error> {
        // Where a new log begins, no group can be written before.
        let lead = lead.as_ref().filter(|_| wish.new_log.is_none());
        loop {
            let chunks = self.prepare_chunks(keeper, lead)?;
            let shrink = match chunks.runs().is_empty() && wish.new_log.is_none() {
                true => self.plan_shrink(keeper)?,
                false => Shrink::default(),
            };
            // Where too much was changed since the room was made, the gate is open again: more room is made.
            if let Some(moment) = self.barrier(keeper, chunks, shrink)? {
                return Ok(moment);
            }
            self.stats.barriers_withdrawn.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Transactions before the moment go to the old log, staged pages to the first group of the new one. Returns
    /// where the new log begins, and the last group written. The lead is given away when the old group is flushed
    /// (S-10.6): that is a sync of the moment. If transactions could not be logged it is kept: then nobody may cut a group
    /// before the superblock of `generation` is there (S-10.7).
    fn write_log_part<'s>(
        &'s self,
        moment: &Moment,
        wish: Wish,
        generation: u64,
        lead: &mut Option<Lead<'s>>,
    ) -> Result<(Head, u64), Error> {
        if let Some(NewLog { head, lives }) = wish.new_log {
            let mut state = self.log.lock();
            // The log of the superblock in force is needed until the next one is flushed: both moved on by one ring.
            state.head = head;
            state.tail += self.pool.log.pages;
            state.incarnation = (state.incarnation + lives) % pool::COUNT_MAX;
        }
        let before = self.log.lock().head;
        let mut is_logged = wish.new_log.is_none();
        if is_logged {
            if !moment.pending.is_empty() {
                let old = self.unless_redo_is_damaged(self.prepare(&moment.pending))?;
                is_logged = self.write_whole_group(old.filter(|old| self.log_has_room(old.pages())))?;
            }
            let mut state = self.log.lock();
            is_logged &= !core::mem::take(&mut state.is_broken);
            if !is_logged && !planted::is(Bug::CarriedBehindNothing) {
                state.begin_chain(generation);
            }
        }
        let mut tail = self.log.lock().head;
        if !moment.carried.is_empty() && !planted::is(Bug::CarryOmitted) {
            let begun = self.write_carried(moment, wish.new_log.is_some(), generation)?;
            // Behind a page that was given up they are in a chain of their own, too.
            is_logged &= begun == tail;
            tail = begun;
        }
        if planted::is(Bug::OldGroupInNewLog) {
            tail = before;
        }
        let mut state = self.log.lock();
        state.written_seq = state.written_seq.max(moment.seq);
        let written = state.head.group.saturating_sub(1);
        let is_flushed = state.with_records <= state.durable;
        drop(state);
        if is_logged {
            if !is_flushed && !planted::is(Bug::LeadGivenEarly) {
                self.flush_log()?;
            }
            *lead = None;
        }
        Ok((tail, written))
    }

    /// Staged pages whole, in a group of their own (S-10.3), behind what had to be given up (S-8.14). Returns where they begin.
    fn write_carried(&self, moment: &Moment, recovers: bool, generation: u64) -> Result<Head, Error> {
        let mut payload = Vec::new();
        for carried in &moment.carried {
            let mut record = carried.record(&self.segment);
            if matches!(record, Record::Lost { .. }) {
                match self.mend_carried(carried, moment.seq) {
                    Some(mended) => record = mended,
                    None => self.lose_carried(carried),
                }
            }
            record.encode(&mut payload);
        }
        let mut state = self.log.lock();
        let (most, whole, bare) = (
            self.pool.log.pages,
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
            let (device, region) = (&*self.device, &self.pool.log);
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
                self.stats.bytes_checkpoint.fetch_add(bytes, Ordering::Relaxed);
                return Ok(before);
            };
            let behind = if recovers {
                0
            } else {
                self.carry_room.saturating_sub(whole - bare)
            };
            let used = head.sequence - state.tail + behind;
            pages = if used + whole > most { bare } else { whole };
            if used + pages > most || !state.give_up(head.sequence, &error) {
                return Err(error);
            }
            state.is_broken = false;
            state.begin_chain(generation);
            crate::locks::AwaitedGuard::unlocked(&mut state, || self.tell_given_up(before.group, &error));
        }
    }

    fn next_superblock(
        &self,
        keeper: &mut Keeper,
        plan: &Plan<'_>,
        moment: &Moment,
        tail: Head,
        beside: &Beside,
        wish: Wish,
    ) -> Result<Superblock, Error> {
        let mut sb = self.superblock_in_force(keeper)?;
        sb.generation = (sb.generation.get() + 1).into();
        // S-2.10
        sb.incompat = (sb.incompat.get() | superblock::INCOMPAT_STRIPES).into();
        sb.seq = moment.seq.into();
        sb.roots = map::roots(&plan.roots)?;
        sb.log_seq = tail.sequence.into();
        sb.group = tail.group.into();
        sb.chain = tail.chain.into();
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
    fn beside(&self, log_written: u64) -> Beside {
        let state = self.log.lock();
        let (incarnation, durable) = (state.incarnation, log_written.max(state.durable));
        drop(state);
        Beside {
            incarnation,
            durable,
            zones: self.zones_wanted(),
        }
    }

    /// The commit point: one slot, flush; then its copy without a flush of its own (S-2.1, S-10.2).
    fn put_superblock(&self, sb: &Superblock) -> Result<(), Error> {
        let bytes = pool::superblock_bytes(sb);
        let slots = superblock::slots_of(sb.generation.get());
        for (i, slot) in slots.into_iter().enumerate() {
            let slot = if planted::is(Bug::SuperblockInPlace) { 0 } else { slot };
            let page = PageNo(superblock::slot_page(slot, self.pool.slots_by));
            self.device.write(page, &bytes[..], Class::Superblock)?;
            planted::step(Point::SuperblockWritten);
            if i == 0 && !planted::is(Bug::NoSecondFlush) {
                self.device.flush()?;
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
        keeper: &mut Keeper,
        plan: Plan<'_>,
        superblock: Superblock,
        moment: &Moment,
        tail: Head,
        flying: &[(MetaId, FrameNo)],
    ) {
        let mut roots = self.map.roots.write();
        *roots = map::watched(&superblock.roots);
        self.map.stray_told.store(false, Ordering::Relaxed);
        for (id, bytes, crc) in &plan.kept {
            if let Some(pin) = self.cache.pin(*id) {
                self.arena.refill(pin.frame, bytes, *crc);
            }
        }
        // Map pages are looked at under the lock of the roots only: nobody holds one of these.
        for id in &plan.dropped {
            if let Some(pin) = self.cache.pin(*id) {
                self.cache.remove(*id, pin);
            }
        }
        drop(roots);
        for (id, frame) in flying {
            let slot = self.cache.slot(*frame);
            let mut state = slot.state.lock();
            if slot.id() == *id {
                state.in_flight = false;
            }
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        self.deaths.arrived();
        self.install_log(&superblock, tail);
        let zones = [superblock.zone_current.get(), superblock.zone_next.get()];
        keeper.superblock = Keeper::of(&superblock);
        keeper.homes = plan.homes;
        keeper.homes.arrived();
        self.space.left(|run| self.system.remove(run));
        self.release_up_to(moment.seq);
        self.sync.reached(moment.seq);
        if let Err(error) = self.open_zones(zones) {
            self.fail(error);
        }
        self.rewrites.installed();
        self.moves.store(false, Ordering::Relaxed);
        self.set_reserve(&keeper.homes);
        // What cannot be told is not counted on; the next checkpoint tells it.
        self.space.set_spare(self.coming_back(keeper).unwrap_or(0));
        *self.checkpoint_at.lock() = std::time::Instant::now();
        self.stats.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    fn install_log(&self, superblock: &Superblock, tail: Head) {
        let mut state = self.log.lock();
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
