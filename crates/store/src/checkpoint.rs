//! Checkpoints: the whole state of one moment, copy-on-write, committed by one superblock (SPEC section 10;
//!
//!
//! Order: lead, barrier, old group and carried tails to the log, flush, lead given away, metablocks, HOMES and map pages,
//! flush, superblock, flush, map in memory, quarantine released. New transactions run beside all of it but the barrier.

mod barrier;
mod settings;
mod shrink;

use crate::error::Error;
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_flash::checkpoint::{Keeper, NewLog, Wish};
use keepfs_flash::log::Head;
use keepfs_flash::map;
use keepfs_flash::moment::Moment;
use keepfs_flash::plan::Plan;
use keepfs_flash::superblock::Beside;
use keepfs_flash::sync::Lead;
use keepfs_format::superblock::Superblock;
use keepfs_vault::planted::{self, Bug};
use shrink::Shrink;

impl Flash {
    /// See [`Store::checkpoint`].
    pub(crate) fn checkpoint(&self, store: &Store) -> Result<(), Error> {
        store.ground.alive()?;
        let mut keeper = self.checkpoints.keeper.lock();
        // Looked at under the lock: who waited for it may find the pool at rest (S-20.21).
        let done = match store.ground.is_read_only() {
            true => {
                self.checkpoints.wanted.done();
                Ok(())
            }
            false => self.checkpoint_with(store, &mut keeper, Wish::default()),
        };
        drop(keeper);
        store.ground.keep_history();
        done
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
            Err(e) => Err(store.ground.fail(e)),
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
        let generation = self.superblock_in_force(&store.frames, keeper)?.generation.get() + 1;
        let log_part = self.write_log_part(store, &moment, wish, generation, lead);
        self.staged.table.lock().carry_done();
        let (tail, log_written) = log_part?;
        if planted::is(Bug::LogTruncatedEarly) {
            self.log.end.lock().tail = tail.sequence;
        }
        let mut plan = Plan::new(self, &store.frames, keeper.homes.clone())?;
        self.write_metablocks(&store.frames, &moment, &mut plan)?;
        moment.rewrite.iter().try_for_each(|id| plan.rewrite_map_page(*id))?;
        plan.finish()?;
        if planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device(&store.frames)?;
            self.write_batch(&store.frames, &mut core::mem::take(&mut plan.late))?;
        }
        let beside = self.beside(store, tail, log_written);
        let superblock = self.next_superblock(&store.frames, keeper, &plan, &moment, &beside, wish)?;
        if self.next_superblock(&store.frames, keeper, &plan, &moment, &beside, wish)? != superblock {
            return Err(Error::Damaged(
                "the superblock to come was changed while it was made".into(),
            ));
        }
        if !planted::is(Bug::NoFlushBeforeSuperblock) && !planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device(&store.frames)?;
        }
        self.put_superblock(&store.frames, &superblock)?;
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
            store.ground.stats.barriers_withdrawn.fetch_add(1, Ordering::Relaxed);
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
            // Behind its superblock no group is one that a recovery which is cut leaves (S-9.14, S-9.28).
            state.head.group += u64::from(moment.carried.is_empty() && !planted::is(Bug::OwedInSameLog));
            state.tail += store.ground.pool.log.pages;
            state.incarnation = (state.incarnation + lives) % keepfs_pool::COUNT_MAX;
        }
        let before = self.log.end.lock().head;
        let mut is_logged = wish.new_log.is_none();
        if is_logged {
            if !moment.pending.is_empty() {
                let old = self.unless_redo_is_damaged(&store.frames, self.prepare(&store.frames, &moment.pending))?;
                is_logged = self.write_whole_group(
                    &store.frames,
                    old.filter(|old| self.log_has_room(&store.frames, old.pages())),
                )?;
            }
            let mut state = self.log.end.lock();
            is_logged &= !core::mem::take(&mut state.is_broken);
            if !is_logged && !planted::is(Bug::CarriedBehindNothing) {
                state.begin_chain(generation);
            }
        }
        let mut tail = self.log.end.lock().head;
        if !moment.carried.is_empty() && !planted::is(Bug::CarryOmitted) {
            let begun = self.write_carried(&store.frames, moment, wish.new_log.is_some(), generation)?;
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

    /// Read once for a superblock: syncs and writers go on.
    fn beside(&self, store: &Store, tail: Head, log_written: u64) -> Beside {
        let state = self.log.end.lock();
        let (incarnation, durable) = (state.incarnation, log_written.max(state.durable));
        drop(state);
        Beside {
            tail,
            incarnation,
            durable,
            zones: self.zones_wanted(store),
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
        if let Err(error) = self.open_zones(store, zones) {
            store.ground.fail(error);
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
        store.ground.stats.checkpoints.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests;
