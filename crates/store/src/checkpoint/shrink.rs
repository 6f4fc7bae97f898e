//! Metadata that became less (SPEC S-4.7): chunks without a used page go back to data, sparse ones are emptied, INODES
//! metablocks without a live inode die.
//!
//! Invariants: (1) a chunk is given back only if the checkpoint before has no used page in it, so nothing that recovery
//! may need lies there, and its pages are data's when this one is durable; (2) INODES metablocks die at the barrier,
//! where no transaction is open that may be about to use one.

use super::barrier::CHUNKS_AT_ONCE;
use crate::error::{Error, Stop};
use crate::txn::Txn;
use crate::{Flash, Store, error};
use keepfs_flash::checkpoint::Keeper;
use keepfs_flash::gate::Closed;
use keepfs_format::map::LIVE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::Run;
use keepfs_format::{FromBytes, Header, MetaId, PAGE, Space, inode};
use keepfs_frames::Pin;
use keepfs_frames::Ref;
use keepfs_media::{Device, PageNo};
use keepfs_vault::planted::{self, Bug};
use std::collections::BTreeSet;

/// Most metablocks that one checkpoint moves out of a sparse chunk.
const MOVED_MAX: u64 = 64;
/// Most INODES metablocks that die with one checkpoint: everybody waits meanwhile.
const DYING_MAX: usize = 64;

/// What a checkpoint does because metadata became less; prepared before anybody waits.
#[derive(Default)]
pub(super) struct Shrink<'s> {
    /// Chunks to give back.
    pub chunks: Vec<Run>,
    /// Metablocks and map pages to write anew, elsewhere.
    pub moved: Vec<MetaId>,
    /// INODES metablocks that had no live inode, and what is to be moved: they stay in the arena until the barrier.
    dying: Vec<(MetaId, Pin<'s>)>,
    _pins: Vec<Pin<'s>>,
}

impl Flash {
    /// Looks for what can be given back beyond what the next checkpoints need.
    pub(super) fn plan_shrink<'s>(&'s self, store: &'s Store, keeper: &mut Keeper) -> Result<Shrink<'s>, Error> {
        let mut shrink = Shrink {
            dying: self.dying_blocks(store),
            ..Shrink::default()
        };
        let spare = self.spare_in_chunks(store, keeper);
        keeper.homes.compact = spare > u64::from(store.ground.pool.chunk_pages) / 2;
        shrink.chunks = self.spare_chunks(store, keeper, CHUNKS_AT_ONCE)?;
        if keeper.homes.compact && shrink.chunks.is_empty() {
            self.empty_a_chunk(store, keeper, spare, &mut shrink)?;
        }
        Ok(shrink)
    }

    /// Pages of chunks that are to be free: what checkpoints need, and a little more, so that they do not come and go.
    fn kept_in_chunks(&self, store: &Store, keeper: &Keeper) -> u64 {
        self.need(store, &keeper.homes).of_next(store.alloc.space.grown())
            + u64::from(store.ground.pool.chunk_pages) / 4
    }

    fn spare_in_chunks(&self, store: &Store, keeper: &Keeper) -> u64 {
        keeper.homes.free().saturating_sub(self.kept_in_chunks(store, keeper))
    }

    /// Up to `most` chunks that can be given back: what is left is enough, and lies apart as it did (S-4.9).
    fn spare_chunks(&self, store: &Store, keeper: &Keeper, most: usize) -> Result<Vec<Run>, Error> {
        let (keep, mut spare) = (self.kept_in_chunks(store, keeper), self.spare_in_chunks(store, keeper));
        let unused = keeper.homes.unused()?;
        if spare == 0 || unused.is_empty() {
            return Ok(Vec::new());
        }
        // Of pages that make pairs only those of one side are looked at together: more can go when these are gone.
        let (mut chunks, mut left) = (Vec::new(), unused);
        loop {
            let mut sides = keeper.homes.sides_without(&chunks, store.ground.pool.apart())?;
            let before = chunks.len();
            left.retain(|run| {
                let goes = u64::from(run.count) <= spare && chunks.len() < most && sides.give_back(*run, keep);
                if goes {
                    spare -= u64::from(run.count);
                    chunks.push(*run);
                }
                !goes
            });
            if chunks.len() == before || chunks.len() == most {
                return Ok(chunks);
            }
        }
    }

    /// Pages of chunks that the next checkpoints give back, at least.
    pub(super) fn coming_back(&self, store: &Store, keeper: &Keeper) -> Result<u64, Error> {
        Ok(self
            .spare_chunks(store, keeper, usize::MAX)?
            .iter()
            .map(|run| u64::from(run.count))
            .sum())
    }

    /// What lies in a sparse chunk is written anew by this checkpoint, in chunks below it. What cannot be read stays.
    fn empty_a_chunk<'s>(
        &self,
        store: &'s Store,
        keeper: &mut Keeper,
        spare: u64,
        shrink: &mut Shrink<'s>,
    ) -> Result<(), Error> {
        // Each takes its pages, and those of the map pages above it.
        let most = MOVED_MAX.min(spare / 8) as usize;
        let pages = keeper
            .homes
            .sparse_chunk(store.ground.pool.apart())?
            .into_iter()
            .take(most);
        let ids: BTreeSet<MetaId> = pages.filter_map(|page| self.owner_of(store, page)).collect();
        for id in ids {
            match (id.as_map(), id.space()) {
                (None, Some(Space::Homes)) => keeper.homes.change(id.index()),
                (None, _) => match store.fetch(id) {
                    Ok(pin) => {
                        shrink._pins.push(pin);
                        shrink.moved.push(id);
                    }
                    Err(error) => tracing::debug!(metablock = %id, %error, "not moved"),
                },
                (Some(_), _) => shrink.moved.push(id),
            }
        }
        Ok(())
    }

    /// The metablock or map page that lies on a page of a chunk.
    fn owner_of(&self, store: &Store, page: u64) -> Option<MetaId> {
        let mut bytes = [0; PAGE];
        store.ground.device.read(PageNo(page), &mut bytes).ok()?;
        let (header, _) = Header::read_from_prefix(&bytes).ok()?;
        let id = MetaId(header.id.get());
        let entry = self.locate(&store.frames, id).ok()??;
        (entry.state == LIVE && [entry.first.get(), entry.second.get()].contains(&page)).then_some(id)
    }

    /// INODES metablocks of which inodes were freed, and that have no live one left.
    fn dying_blocks<'s>(&'s self, store: &'s Store) -> Vec<(MetaId, Pin<'s>)> {
        let mut dying = Vec::new();
        for _ in 0..DYING_MAX {
            let Some(index) = self.checkpoints.emptied.lock().pop_first() else {
                break;
            };
            let id = MetaId::new(Space::Inodes, index);
            if let Ok(Some(pin)) = store.fetch_known(id)
                && self.may_die(store, &pin).unwrap_or(false)
            {
                dying.push((id, pin));
            }
        }
        dying
    }

    /// S-3.3: no inode of the metablock is live, and its versions leave room for those of its next life.
    fn may_die(&self, store: &Store, pin: &Pin<'_>) -> Result<bool, Error> {
        let mut bytes = [0; PAGE];
        store.verified_copy(pin, &mut bytes)?;
        let generation = Header::read_from_prefix(&bytes).map_or(0, |(h, _)| u64::from(h.generation.get()));
        let slots = bytes[HEADER..]
            .chunks_exact(inode::SIZE)
            .take(inode::PER_BLOCK as usize);
        let dead = |slot: &[u8]| {
            inode::Inode::read_from_bytes(slot)
                .is_ok_and(|i| matches!(i.state.get(), 0 | inode::DEAD) && i.cur.get() < generation << 32)
        };
        Ok(generation < u64::from(u32::MAX >> 1) && slots.into_iter().all(dead))
    }

    /// Chunks leave the bitmap and HOMES, as they are adopted: in no log, and before the gate is shut. Nobody is given
    /// their pages before the checkpoint is durable.
    pub(super) fn end_chunks(&self, store: &Store, keeper: &mut Keeper, shrink: &Shrink<'_>) -> Result<(), Error> {
        for run in &shrink.chunks {
            let _pins = self.pin_bits(store, *run)?;
            store.alloc.space.leaving(*run);
            let mut txn = Txn::begin_unlogged(store);
            txn.leave_pages(*run).map_err(error::stopped)?;
            txn.seal().map_err(error::stopped)?.commit();
            store.watch.audits.ledger.left(u64::from(run.count));
            keeper.homes.remove(*run);
            if planted::is(Bug::ChunkReusedTooEarly) {
                store.alloc.space.left(|run| store.alloc.system.remove(run));
            }
        }
        Ok(())
    }

    /// Behind the shut gate: INODES metablocks die.
    pub(super) fn end_inodes(&self, store: &Store, shut: &Closed<'_>, shrink: &Shrink<'_>) -> Result<(), Error> {
        if shrink.dying.is_empty() || !self.end_blocks(store, shut, &shrink.dying)? {
            return Ok(());
        }
        if let Some(oplog) = store.watch.oplog.as_ref() {
            // Slots changed that no operation tells of: nothing before is replayed beyond here (S-12.6).
            oplog.swap();
            oplog.swap();
        }
        Ok(())
    }

    /// Ends the INODES metablocks that may still die, in one transaction; `false` if none did.
    fn end_blocks(&self, store: &Store, shut: &Closed<'_>, part: &[(MetaId, Pin<'_>)]) -> Result<bool, Error> {
        let mut txn = Txn::begin_alone(store, shut);
        let mut died = false;
        for (id, pin) in part {
            if self.may_die(store, pin)? {
                txn.free_inode_block(Ref::inodes(*id)).map_err(error::stopped)?;
                died = true;
            }
        }
        match txn.seal() {
            Ok(sealed) => {
                sealed.commit();
                Ok(died)
            }
            Err(Stop::Pressure(_)) => {
                // No room for redo beside what others have: another checkpoint will do it.
                self.checkpoints
                    .emptied
                    .lock()
                    .extend(part.iter().map(|(id, _)| id.index()));
                Ok(false)
            }
            Err(stop) => Err(error::stopped(stop)),
        }
    }
}
