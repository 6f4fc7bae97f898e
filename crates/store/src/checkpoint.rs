//! Checkpoints: the whole state of one moment, copy-on-write, committed by one superblock (SPEC section 10,
//! PROTOCOLS section 6).
//!
//! Order: lead, barrier, old group and carried tails to the log, metablocks, HOMES and map pages, flush, superblock,
//! flush, map in memory, quarantine released. New transactions run beside all of it but the barrier.

mod plan;

use crate::arena::{self, FrameNo};
use crate::error::Error;
use crate::homes::Homes;
use crate::log::{self, Head, Stamp};
use crate::planted::{self, Bug};
use crate::redo::Span;
use crate::space::Purpose;
use crate::staged::Carried;
use crate::sync::Lead;
use crate::txn::Txn;
use crate::{Store, pool};
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{DEAD, FANOUT, LIVE, MapEntry};
use keepfs_format::plog::{Record, Run};
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Header, MetaId, PAGE};
use keepfs_media::{Class, Device, PageNo};
use plan::Plan;
use std::time::Instant;

/// What only the checkpointer touches.
pub struct Keeper {
    /// The superblock in force.
    pub superblock: Superblock,
    /// Pages that hold metadata.
    pub homes: Homes,
}

/// What a checkpoint shall be besides an ordinary one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// The pool is closed with it.
    pub clean: bool,
    /// It ends a recovery: a new life of the log begins at this head.
    pub new_log: Option<Head>,
}

/// Everything that belongs to the moment of the barrier.
struct Moment {
    epoch: u64,
    seq: u64,
    /// Metablocks that live, from above.
    live: u64,
    dirty: Vec<(MetaId, FrameNo)>,
    deaths: Vec<(MetaId, u32)>,
    pending: Span,
    carried: Vec<Carried>,
    /// Map pages of which a copy is bad.
    rewrite: Vec<MetaId>,
}

/// Chunks that one transaction of the barrier adopts.
const CHUNKS_AT_ONCE: usize = 32;
/// Pages written together at most.
const BATCH: usize = 256;

impl Store {
    /// Writes a checkpoint now.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.alive()?;
        self.checkpoint_as(Wish::default())
    }

    /// A checkpoint with a wish. Errors after the barrier end writing to the pool. Lock order: keeper, lead.
    pub(crate) fn checkpoint_as(&self, wish: Wish) -> Result<(), Error> {
        let mut keeper = self.keeper.lock();
        let lead = self.sync.lead();
        let result = self.checkpoint_locked(&mut keeper, wish, lead);
        self.wanted.done();
        match result {
            Err(Error::NoSpace) => Err(Error::NoSpace),
            Err(e) => Err(self.fail(e)),
            Ok(()) => Ok(()),
        }
    }

    fn checkpoint_locked<'s>(&'s self, keeper: &mut Keeper, wish: Wish, lead: Lead<'s>) -> Result<(), Error> {
        let chunks = self.prepare_chunks(keeper)?;
        let moment = self.barrier(keeper, &chunks)?;
        let log_part = self.write_log_part(&moment, wish, lead);
        self.staged_table.lock().carry_done();
        let (tail, log_written, lead) = log_part?;
        if planted::is(Bug::LogTruncatedEarly) {
            self.log.lock().tail = tail.sequence;
        }
        let mut plan = Plan::new(self, keeper.homes.clone());
        let mut flying = Vec::new();
        self.write_metablocks(&moment, &mut plan, &mut flying)?;
        moment.rewrite.iter().try_for_each(|id| plan.rewrite_map_page(*id))?;
        plan.finish()?;
        if planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device()?;
            self.write_batch(&mut core::mem::take(&mut plan.late))?;
        }
        let superblock = self.next_superblock(keeper, &plan, &moment, tail, log_written, wish);
        if !planted::is(Bug::NoFlushBeforeSuperblock) && !planted::is(Bug::MapBeforeMetablocks) {
            self.flush_device()?;
        }
        self.put_superblock(&superblock)?;
        self.install(keeper, plan, superblock, &moment, tail, &flying);
        drop(lead);
        Ok(())
    }

    /// Reserves chunks so that this checkpoint and the next have their space (S-10.4), before anybody waits.
    fn prepare_chunks(&self, keeper: &Keeper) -> Result<Vec<Run>, Error> {
        let now = self.home_need(self.cache.dirty.load(Ordering::Relaxed) + self.dirty_limit / 4 + 8);
        let worst = self.home_need(self.dirty_limit);
        let mut free = keeper.homes.free();
        let mut chunks = Vec::new();
        while free < now + worst {
            let want = (now + worst - free).min(u64::from(self.pool.chunk_pages)) as u32;
            let runs = match self.space.reserve(want, Purpose::Claimed) {
                Ok(runs) => runs,
                Err(_) => self.reserve_elsewhere(want),
            };
            if runs.is_empty() {
                break;
            }
            free += runs.iter().map(|r| u64::from(r.count)).sum::<u64>();
            chunks.extend(runs);
        }
        if free < now {
            chunks.iter().for_each(|run| self.space.give_back(&[*run]));
            return Err(Error::NoSpace);
        }
        Ok(chunks)
    }

    /// Pages that a checkpoint of `dirty` metablocks may need at worst.
    pub(crate) fn home_need(&self, dirty: u64) -> u64 {
        let live = self.live_metablocks();
        let map_pages = (dirty * 3).min(live / (FANOUT - 1) * 2 + 12);
        u64::from(self.pool.meta_copies) * (dirty + map_pages + live / 2000 + 4)
    }

    /// No transaction is open: fix the moment, let them go on (S-10.1; PROTOCOLS: at most 10 ms).
    fn barrier(&self, keeper: &mut Keeper, chunks: &[Run]) -> Result<Moment, Error> {
        let mut pins = Vec::new();
        for run in chunks {
            pins.extend(self.pin_bits(*run)?);
        }
        let started = Instant::now();
        let gate = self.gate.write();
        self.adopt_chunks(keeper, chunks)?;
        let rewrite = self.dirty_bad_copies()?;
        let live = self.live_metablocks();
        let mut redo = self.redo.lock();
        let epoch = self.epoch.fetch_add(1, Ordering::AcqRel);
        let moment = Moment {
            epoch,
            seq: redo.last,
            live,
            dirty: core::mem::take(&mut *self.dirty_list.lock()),
            deaths: self.deaths.lock().iter().map(|(id, g)| (*id, *g)).collect(),
            pending: redo.take(),
            carried: self.staged_table.lock().carry(),
            rewrite,
        };
        drop(redo);
        drop(gate);
        let waited = started.elapsed().as_nanos() as u64;
        self.stats.barrier_ns_max.fetch_max(waited, Ordering::Relaxed);
        Ok(moment)
    }

    /// Chunks become allocated, in this checkpoint's bitmap and nowhere in the log.
    fn adopt_chunks(&self, keeper: &mut Keeper, chunks: &[Run]) -> Result<(), Error> {
        // A run has at most 256 pages; so many runs stay far below what one transaction may undo.
        for part in chunks.chunks(CHUNKS_AT_ONCE) {
            let mut txn = Txn::begin_unlogged(self);
            for run in part {
                txn.use_pages(*run).map_err(pool::stopped)?;
            }
            txn.seal().map_err(pool::stopped)?.commit();
        }
        for run in chunks {
            self.space.used(u64::from(run.count));
            self.space.keep(&[*run]);
            keeper.homes.add(run.start, run.count);
            self.system.add(*run);
        }
        Ok(())
    }

    /// Metablocks of which a bad copy was read around become dirty, so that this checkpoint writes them anew. Returns
    /// the map pages among them.
    fn dirty_bad_copies(&self) -> Result<Vec<MetaId>, Error> {
        let bad = core::mem::take(&mut *self.bad_copies.lock());
        let (pages, blocks): (Vec<MetaId>, Vec<MetaId>) = bad.into_iter().partition(|id| id.as_map().is_some());
        for id in blocks {
            if let Some(pin) = self.cache.pin(id) {
                self.before_first_write(id, &pin).map_err(pool::stopped)?;
            }
        }
        Ok(pages)
    }

    /// Transactions before the moment go to the old log, staged pages to the first group of the new one. Returns
    /// where the new log begins, the last group that the coming flush covers, and, if transactions could not be
    /// logged, the lead: then nobody may cut a group before the superblock is there.
    fn write_log_part<'s>(
        &'s self,
        moment: &Moment,
        wish: Wish,
        lead: Lead<'s>,
    ) -> Result<(Head, u64, Option<Lead<'s>>), Error> {
        if let Some(head) = wish.new_log {
            let mut state = self.log.lock();
            (state.head, state.tail) = (head, head.sequence);
            state.incarnation += 1;
        }
        let before = self.log.lock().head;
        let mut lead = Some(lead);
        let mut keep_lead = wish.new_log.is_some();
        if !moment.pending.is_empty() && !keep_lead {
            let old = self.prepare(&moment.pending)?;
            match self.log_has_room(old.pages()) {
                true => self.write_group(&old)?,
                false => keep_lead = true,
            }
        }
        let tail = if planted::is(Bug::OldGroupInNewLog) {
            before
        } else {
            self.log.lock().head
        };
        if !moment.carried.is_empty() && !planted::is(Bug::CarryOmitted) {
            self.write_carried(moment)?;
        }
        let mut state = self.log.lock();
        state.written_seq = state.written_seq.max(moment.seq);
        let written = state.head.group.saturating_sub(1);
        drop(state);
        if !keep_lead {
            lead = None;
        }
        Ok((tail, written, lead))
    }

    /// Staged pages whole, in a group of their own (S-10.3).
    fn write_carried(&self, moment: &Moment) -> Result<(), Error> {
        let carried = moment.carried.iter().map(|c| c.record(&self.segment));
        let records: Vec<Record> = carried.collect::<Result<_, _>>()?;
        let payload = log::encode(&records);
        let mut state = self.log.lock();
        if state.head.sequence - state.tail + log::pages_of(payload.len()) > self.pool.log.pages {
            // The limit of staged pages and the room kept in the log for them exclude it.
            return Err(Error::Logic("the log cannot hold the staged pages".into()));
        }
        let before = state.head;
        let mut head = before;
        let stamp = Stamp {
            incarnation: state.incarnation,
            durable: state.durable,
            base: state.base,
            seq: moment.seq,
            flags: 0,
        };
        let pages = log::lay_out(&self.pool.log, &mut head, &stamp, &payload);
        log::write(&*self.device, &self.pool.log, before, state.incarnation, &pages)?;
        state.head = head;
        state.written = before.group;
        self.stats
            .bytes_checkpoint
            .fetch_add(pages.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes every metablock that was dirty at the moment to a new home.
    fn write_metablocks(
        &self,
        moment: &Moment,
        plan: &mut Plan<'_>,
        flying: &mut Vec<(MetaId, FrameNo)>,
    ) -> Result<(), Error> {
        for (id, generation) in &moment.deaths {
            plan.dead(*id, *generation)?;
        }
        let mut batch = Vec::with_capacity(BATCH);
        for (id, frame) in &moment.dirty {
            let Some(content) = self.content_at(moment.epoch, *id, *frame, flying)? else {
                continue;
            };
            let entry = plan.live(*id, &content)?;
            batch.push((entry, content));
            if batch.len() >= BATCH {
                self.write_batch(&mut batch)?;
            }
        }
        if planted::is(Bug::MapBeforeMetablocks) {
            plan.late = batch;
            return Ok(());
        }
        self.write_batch(&mut batch)
    }

    /// The verified content of a metablock at the moment; `None` if it was dead then, or is done already.
    fn content_at(
        &self,
        epoch: u64,
        id: MetaId,
        frame: FrameNo,
        flying: &mut Vec<(MetaId, FrameNo)>,
    ) -> Result<Option<arena::Copy>, Error> {
        if let Some(copy) = self.stash.lock().remove(&id) {
            return Ok(Some(copy));
        }
        let Some(pin) = self.cache.pin(id).filter(|p| p.frame == frame) else {
            return Ok(self.stash.lock().remove(&id));
        };
        let mut state = pin.slot().state.lock();
        if state.dirty == 0 || state.dirty > epoch {
            return Ok(self.stash.lock().remove(&id));
        }
        let mut copy: arena::Copy = Box::new([0; PAGE]);
        self.verified_copy(&pin, &mut copy)?;
        state.dirty = 0;
        state.in_flight = true;
        self.cache.dirty.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        flying.push((id, frame));
        Ok(Some(copy))
    }

    /// Writes contents to both homes, neighbours together, and checks the buffers once more.
    fn write_batch(&self, batch: &mut Vec<(MapEntry, arena::Copy)>) -> Result<(), Error> {
        let mut writes: Vec<(u64, &[u8])> = Vec::with_capacity(batch.len() * 2);
        for (entry, content) in batch.iter() {
            writes.push((entry.first.get(), &content[..]));
            if entry.second.get() != 0 {
                writes.push((entry.second.get(), &content[..]));
            }
        }
        self.write_runs(&mut writes, Class::Metadata)?;
        for (entry, content) in batch.iter() {
            if crc64::full(&content[..]) != entry.crc.get() {
                return Err(Error::Damaged(
                    "a checkpoint buffer was changed while it was written".into(),
                ));
            }
        }
        batch.clear();
        Ok(())
    }

    /// Writes pages, those that lie side by side in one call.
    pub(crate) fn write_runs(&self, writes: &mut [(u64, &[u8])], class: Class) -> Result<(), Error> {
        writes.sort_unstable_by_key(|(page, _)| *page);
        for run in writes.chunk_by(|a, b| a.0 + 1 == b.0) {
            let parts: Vec<&[u8]> = run.iter().map(|(_, bytes)| *bytes).collect();
            self.device.write_vectored(PageNo(run[0].0), &parts, class)?;
            self.stats
                .bytes_checkpoint
                .fetch_add((parts.len() * PAGE) as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn next_superblock(
        &self,
        keeper: &Keeper,
        plan: &Plan<'_>,
        moment: &Moment,
        tail: Head,
        log_written: u64,
        wish: Wish,
    ) -> Superblock {
        let mut sb = keeper.superblock;
        sb.generation = (sb.generation.get() + 1).into();
        sb.seq = moment.seq.into();
        sb.roots = plan.roots;
        sb.log_seq = tail.sequence.into();
        sb.group = tail.group.into();
        sb.chain = tail.chain.into();
        let state = self.log.lock();
        sb.incarnation = state.incarnation.into();
        sb.durable = log_written.max(state.durable).into();
        sb.state = if wish.clean {
            superblock::CLEAN
        } else {
            superblock::OPEN
        }
        .into();
        drop(state);
        let zones = self.zones_wanted();
        (sb.zone_current, sb.zone_next) = (zones[0].into(), zones[1].into());
        sb
    }

    /// The commit point: one slot, flush; then its copy without a flush of its own (S-2.1, S-10.2).
    fn put_superblock(&self, sb: &Superblock) -> Result<(), Error> {
        let bytes = pool::superblock_bytes(sb);
        let slots = superblock::slots_of(sb.generation.get());
        for (i, slot) in slots.into_iter().enumerate() {
            let slot = if planted::is(Bug::SuperblockInPlace) { 0 } else { slot };
            let page = PageNo(superblock::slot_page(slot, self.pool.pages));
            self.device.write(page, &bytes[..], Class::Superblock)?;
            if i == 0 && !planted::is(Bug::NoSecondFlush) {
                self.device.flush()?;
            }
        }
        Ok(())
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
        *roots = superblock.roots;
        for (id, bytes, crc) in &plan.pages {
            if let Some(pin) = self.cache.pin(*id) {
                self.arena.refill(pin.frame, bytes, *crc);
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
        let mut deaths = self.deaths.lock();
        for (id, generation) in &moment.deaths {
            if deaths.get(id) == Some(generation) {
                deaths.remove(id);
            }
        }
        drop(deaths);
        self.install_log(&superblock, tail);
        let zones = [superblock.zone_current.get(), superblock.zone_next.get()];
        keeper.superblock = superblock;
        keeper.homes = plan.homes;
        keeper.homes.changed.clear();
        self.release_up_to(moment.seq);
        self.sync.reached(moment.seq);
        self.open_zones(zones);
        self.set_reserve(&keeper.homes, moment.live);
        self.stats.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    fn install_log(&self, superblock: &Superblock, tail: Head) {
        let mut state = self.log.lock();
        state.tail = tail.sequence;
        state.base = superblock.generation.get();
        state.durable = state.durable.max(superblock.durable.get());
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
