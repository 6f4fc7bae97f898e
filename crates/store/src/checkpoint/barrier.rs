//! The moment of a checkpoint: room for it is made before, then the gate is shut, the moment is fixed, and the gate
//! opens again (S-10.1, S-10.4: never a stop longer than 6 ms).
//!
//! Behind the shut gate nothing is done that grows with the arena: lists are taken away whole, the staged pages (at
//! most [`keepfs_flash::staged::STAGED_MAX`]) are shared, not copied. Chunks are adopted before: their bits are in no log, so a
//! crash forgets them, and no other checkpoint can come between.

use super::shrink::Shrink;
use crate::error::Error;
use crate::reserve::Reservation;
use crate::space::Purpose;
use crate::txn::Txn;
use crate::{Flash, Store, error};
use core::sync::atomic::Ordering;
use keepfs_flash::checkpoint::Keeper;
use keepfs_flash::gate::Closed;
use keepfs_flash::homes::far_pairs;
use keepfs_flash::moment::Moment;
use keepfs_flash::sync::Lead;
use keepfs_format::map::HEIGHT_MAX;
use keepfs_format::{MetaId, Space};

/// Chunks that one transaction adopts.
pub(super) const CHUNKS_AT_ONCE: usize = 32;
/// Most map pages that are written anew because one of them has a bad copy: it and those above and below it.
const REWRITE_MAP: u64 = HEIGHT_MAX as u64;
/// How often pages are looked for that lie apart: once near, once far, and as often again where less was found than was wanted.
const ROUNDS: u32 = 6;
impl Flash {
    /// Reserves chunks so that this checkpoint and the next have their space (S-10.4, S-10.10), before anybody waits.
    pub(super) fn prepare_chunks<'s>(
        &'s self,
        store: &'s Store,
        keeper: &Keeper,
        lead: Option<&Lead<'_>>,
    ) -> Result<Reservation<'s>, Error> {
        let need = self.need(store, &keeper.homes);
        let least =
            need.pages_for(self.weight(&store.frames) + REWRITE_MAP * self.checkpoints.bad_copies.lock().len() as u64);
        let wanted = need.of_next(store.alloc.space.grown()).max(least);
        self.chunks_of(store, keeper, lead, least, wanted)
    }

    /// Runs with which chunks have `wanted` free pages, or at least `least`. Where the rest is in quarantine, and `lead` may be
    /// used for it, what was freed is made durable first. Errors: [`Error::NoSpace`] only if there are not so many (S-11.4).
    pub(crate) fn chunks_of<'s>(
        &'s self,
        store: &'s Store,
        keeper: &Keeper,
        lead: Option<&Lead<'_>>,
        least: u64,
        wanted: u64,
    ) -> Result<Reservation<'s>, Error> {
        let mut chunks = Reservation::of(store, store.alloc.space.holder());
        self.reserve_apart(store, keeper, &mut chunks, wanted)?;
        self.reserve_chunks(store, keeper, &mut chunks, wanted)?;
        let lacks = |chunks: &Reservation<'_>| keeper.homes.free() + chunks.pages() < least;
        if lacks(&chunks) && store.alloc.space.figures().quarantined > 0 && lead.is_some() {
            self.cut_and_flush(store)?;
            self.reserve_apart(store, keeper, &mut chunks, wanted)?;
            self.reserve_chunks(store, keeper, &mut chunks, wanted)?;
        }
        match lacks(&chunks) {
            true => Err(Error::NoSpace),
            false => Ok(chunks),
        }
    }

    /// Adds runs of a chunk's length at most until `wanted` free pages of chunks make pairs that lie apart (S-4.9), or there are no
    /// more that would. Beyond `wanted` pages in all it takes only what new data might have.
    fn reserve_apart(
        &self,
        store: &Store,
        keeper: &Keeper,
        chunks: &mut Reservation<'_>,
        wanted: u64,
    ) -> Result<(), Error> {
        let Some(apart) = store.ground.pool.apart() else {
            return Ok(());
        };
        for _ in 0..ROUNDS {
            let pages = keeper.homes.free_pages(chunks.runs())?;
            let far = far_pairs(&pages, apart);
            let lacking = wanted.div_ceil(2).saturating_sub(far as u64);
            if lacking == 0 {
                return Ok(());
            }
            let before = chunks.pages();
            match &pages[far..pages.len() - far] {
                [] => self.add_chunks(store, chunks, lacking, |chunks, pages| chunks.add(pages))?,
                alone @ [low, ..] => {
                    let high = alone[alone.len() - 1];
                    let within = wanted.saturating_sub(pages.len() as u64);
                    let (purpose, most) = match within {
                        0 => (Purpose::New, u64::MAX),
                        _ => (Purpose::Claimed, within),
                    };
                    let more = lacking.min(alone.len() as u64).min(most);
                    self.add_chunks(store, chunks, more, |chunks, pages| {
                        chunks.add_apart(pages, purpose, *low..=high, apart)
                    })?;
                }
            }
            if chunks.pages() == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Adds `pages` pages in runs of a chunk's length at most, as long as `add` finds some.
    fn add_chunks(
        &self,
        store: &Store,
        chunks: &mut Reservation<'_>,
        pages: u64,
        add: impl Fn(&mut Reservation<'_>, u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = chunks.pages() + pages;
        loop {
            let before = chunks.pages();
            let want = end.saturating_sub(before).min(u64::from(store.ground.pool.chunk_pages)) as u32;
            if want > 0 {
                add(chunks, want)?;
            }
            if chunks.pages() == before {
                return Ok(());
            }
        }
    }

    /// Adds runs of a chunk's length at most, until the chunks have `wanted` free pages or there are no more.
    fn reserve_chunks(
        &self,
        store: &Store,
        keeper: &Keeper,
        chunks: &mut Reservation<'_>,
        wanted: u64,
    ) -> Result<(), Error> {
        let lacking = wanted.saturating_sub(keeper.homes.free() + chunks.pages());
        self.add_chunks(store, chunks, lacking, |chunks, pages| chunks.add(pages))
    }

    /// Fixes the moment while no transaction is open. `None`: more was changed meanwhile than there are pages for.
    pub(super) fn barrier(
        &self,
        store: &Store,
        keeper: &mut Keeper,
        chunks: Reservation<'_>,
        shrink: Shrink<'_>,
    ) -> Result<Option<Moment>, Error> {
        // Before anything is held against them.
        let totals = self.pin_totals(&store.frames)?;
        self.adopt_chunks(store, keeper, chunks)?;
        self.end_chunks(store, keeper, &shrink)?;
        let bad = core::mem::take(&mut *self.checkpoints.bad_copies.lock());
        bad.iter()
            .try_for_each(|copy| self.check_not_crossed(&store.frames, copy))?;
        let (homes, others): (Vec<MetaId>, Vec<MetaId>) = bad
            .iter()
            .map(|copy| copy.id)
            .partition(|id| id.space() == Some(Space::Homes));
        homes.iter().for_each(|id| keeper.homes.change(id.index()));
        let again = others.into_iter().chain(shrink.moved.iter().copied());
        let rewrite = self.write_again(store, again)?;
        let closed = store.txns.gate.shut(&store.ground)?;
        // Who ends writing has not left the gate or the keeper yet: what is in memory behind it is no state of the pool (S-15.17).
        store.ground.alive()?;
        self.end_inodes(store, &closed, &shrink)?;
        let audits = &store.watch.audits;
        let told = |found| audits.auditor().and_then(|_| audits.ledger.check(found).err());
        self.check_totals(&store.frames, &closed, &totals, told)?;
        let weight = self.weight(&store.frames) + REWRITE_MAP * rewrite.len() as u64;
        if self.need(store, &keeper.homes).pages_for(weight) > keeper.homes.free() {
            self.checkpoints.bad_copies.lock().extend(bad);
            return Ok(None);
        }
        store.alloc.space.barrier(&closed);
        self.checkpoints.rewrites.barrier(&closed);
        Ok(Some(self.fix_moment(store, &closed, rewrite)))
    }

    fn fix_moment(&self, store: &Store, _shut: &Closed<'_>, rewrite: Vec<MetaId>) -> Moment {
        let mut redo = self.log.redo.lock();
        Moment {
            epoch: self.checkpoints.epoch.fetch_add(1, Ordering::AcqRel),
            seq: redo.last,
            dirty: core::mem::take(&mut *self.checkpoints.dirty.lock()),
            deaths: self.checkpoints.deaths.depart(),
            pending: self.cut(store, &mut redo),
            carried: self.staged.table.lock().carry(),
            rewrite,
        }
    }

    /// Chunks become allocated, in this checkpoint's bitmap and nowhere in the log. Transactions go on beside it.
    fn adopt_chunks(&self, store: &Store, keeper: &mut Keeper, chunks: Reservation<'_>) -> Result<(), Error> {
        // A run has at most 256 pages; so many runs stay far below what one transaction may undo.
        for part in chunks.runs().chunks(CHUNKS_AT_ONCE) {
            let mut pins = Vec::new();
            for run in part {
                pins.extend(self.pin_bits(store, *run)?);
            }
            let mut txn = Txn::begin_unlogged(store);
            for run in part {
                txn.use_pages(*run).map_err(error::stopped)?;
            }
            txn.seal().map_err(error::stopped)?.commit();
        }
        for run in chunks.runs() {
            store.alloc.space.used(u64::from(run.count));
            keeper.homes.add(run.start, run.count)?;
            store.alloc.system.add(*run);
        }
        let readers_are_done = store.txns.gate.own();
        store.alloc.space.keep(&readers_are_done, chunks.runs());
        chunks.allocated();
        Ok(())
    }

    /// Metablocks become dirty though nothing changed, so that this checkpoint writes them elsewhere. Returns the map pages
    /// among them.
    fn write_again(&self, store: &Store, ids: impl Iterator<Item = MetaId>) -> Result<Vec<MetaId>, Error> {
        let (pages, blocks): (Vec<MetaId>, Vec<MetaId>) = ids.partition(|id| id.as_map().is_some());
        for id in blocks {
            // Whoever found the bad copy may not have kept the metablock in memory. If it cannot be had any more, it is lost
            // and was told.
            if let Ok(Some(pin)) = store.fetch_known(id) {
                self.before_first_write(&store.frames, id, &pin, false)
                    .map_err(error::stopped)?;
            }
        }
        Ok(pages)
    }
}
