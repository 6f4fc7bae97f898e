//! Writing what was dirty at the moment: verified copies, both homes, neighbours together.

use super::barrier::Moment;
use super::plan::Plan;
use crate::error::Error;
use crate::fence::unless_fenced;
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::MapEntry;
use keepfs_format::{MetaId, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_vault::arena::{self, FrameNo};
use keepfs_vault::planted::{self, Bug};

/// Pages written together at most.
pub(super) const BATCH: usize = 256;

/// What a metablock held at the moment.
enum Content {
    /// All of it.
    Whole(arena::Copy),
    /// Nobody knows; its kind.
    Lost(u8),
}

impl Flash {
    /// Writes every metablock that was dirty at the moment to a new home.
    pub(super) fn write_metablocks(&self, store: &Store, moment: &Moment, plan: &mut Plan<'_>) -> Result<(), Error> {
        for (id, generation) in moment.deaths.all()? {
            plan.dead(MetaId(id), generation)?;
        }
        store
            .frames
            .fences
            .lost_at_rest()
            .into_iter()
            .try_for_each(|id| plan.lost(id))?;
        let mut batch = Vec::with_capacity(BATCH);
        for dirty in moment.dirty.iter() {
            let [id, frame] = dirty?;
            let (id, frame) = (MetaId(id), frame as FrameNo);
            match self.content_at(store, moment, plan, (id, frame))? {
                None => continue,
                Some(Content::Whole(content)) => batch.push((plan.live(id, &content)?, content)),
                Some(Content::Lost(kind)) => batch.extend(plan.given_up(id, kind)?),
            }
            if batch.len() >= BATCH {
                self.write_batch(store, &mut batch)?;
                self.write_copies(store, plan)?;
            }
        }
        if planted::is(Bug::MapBeforeMetablocks) {
            plan.late = batch;
            return Ok(());
        }
        self.write_batch(store, &mut batch)
    }

    /// The copies that transactions have left go first: they lie beside the arena, and whoever begins waits for them.
    fn write_copies(&self, store: &Store, plan: &mut Plan<'_>) -> Result<(), Error> {
        let mut batch = Vec::new();
        for (id, content) in self.checkpoints.stash.take_some(BATCH)? {
            let entry = plan.live(id, &content)?;
            batch.push((entry, content));
        }
        self.write_batch(store, &mut batch)
    }

    /// The verified content of a metablock at the moment; `None` if it was dead then, or is done already.
    fn content_at(
        &self,
        store: &Store,
        moment: &Moment,
        plan: &mut Plan<'_>,
        (id, frame): (MetaId, FrameNo),
    ) -> Result<Option<Content>, Error> {
        let stashed = || Ok(self.checkpoints.stash.take(id)?.map(Content::Whole));
        if let Some(content) = stashed()? {
            return Ok(Some(content));
        }
        let Some(pin) = store.frames.cache.pin(id).filter(|p| p.frame == frame) else {
            return stashed();
        };
        let mut state = pin.slot().state.lock();
        if state.dirty == 0 || state.dirty > moment.epoch {
            return stashed();
        }
        let mut copy: arena::Copy = Box::new([0; PAGE]);
        if !unless_fenced(store.verified_copy(&pin, &mut copy))? {
            // N-2: what it lacks is told with the fence.
            state.dirty = 0;
            store.frames.cache.dirty.fetch_sub(1, Ordering::Relaxed);
            let whole = store.fenced_content(id, moment.seq).map(Content::Whole);
            return Ok(Some(
                whole.unwrap_or_else(|| Content::Lost(store.kind_of_frame(frame, id))),
            ));
        }
        state.dirty = 0;
        state.in_flight = true;
        store.frames.cache.dirty.fetch_sub(1, Ordering::Relaxed);
        self.checkpoints.in_flight.fetch_add(1, Ordering::Relaxed);
        plan.flying.push((id, frame));
        Ok(Some(Content::Whole(copy)))
    }

    /// Writes contents to both homes, neighbours together, and checks the buffers once more.
    pub(super) fn write_batch(&self, store: &Store, batch: &mut Vec<(MapEntry, arena::Copy)>) -> Result<(), Error> {
        let mut writes: Vec<(u64, &[u8])> = Vec::with_capacity(batch.len() * 2);
        for (entry, content) in batch.iter() {
            writes.push((entry.first.get(), &content[..]));
            if entry.second.get() != 0 && !planted::is(Bug::StaleCopy) {
                writes.push((entry.second.get(), &content[..]));
            }
        }
        self.write_runs(store, &mut writes, Class::Metadata)?;
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
    pub(super) fn write_runs(&self, store: &Store, writes: &mut [(u64, &[u8])], class: Class) -> Result<(), Error> {
        writes.sort_unstable_by_key(|(page, _)| *page);
        for run in writes.chunk_by(|a, b| a.0 + 1 == b.0) {
            let parts: Vec<&[u8]> = run.iter().map(|(_, bytes)| *bytes).collect();
            store.device.write_vectored(PageNo(run[0].0), &parts, class)?;
            store
                .watch
                .stats
                .bytes_checkpoint
                .fetch_add((parts.len() * PAGE) as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
