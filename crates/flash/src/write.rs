//! Writing what was dirty at the moment: verified copies, both homes, neighbours together.

use crate::error::Error;
use crate::home::Flash;
use crate::moment::Moment;
use crate::plan::{BATCH, Plan};
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::MapEntry;
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::Frames;
use keepfs_frames::fence::unless_fenced;
use keepfs_media::{Class, Device, PageNo};
use keepfs_vault::arena::{self, FrameNo};
use keepfs_vault::planted::{self, Bug};

/// What a metablock held at the moment.
enum Content {
    /// All of it.
    Whole(arena::Copy),
    /// Nobody knows; its kind.
    Lost(u8),
}

impl Flash {
    /// Writes every metablock that was dirty at the moment to a new home.
    pub fn write_metablocks(&self, frames: &Frames, moment: &Moment, plan: &mut Plan<'_>) -> Result<(), Error> {
        for (id, generation) in moment.deaths.all()? {
            plan.dead(MetaId(id), generation)?;
        }
        frames
            .fences
            .lost_at_rest()
            .into_iter()
            .try_for_each(|id| plan.lost(id))?;
        let mut batch = Vec::with_capacity(BATCH);
        for dirty in moment.dirty.iter() {
            let [id, frame] = dirty?;
            let (id, frame) = (MetaId(id), frame as FrameNo);
            match self.content_at(frames, moment, plan, (id, frame))? {
                None => continue,
                Some(Content::Whole(content)) => batch.push((plan.live(id, &content)?, content)),
                Some(Content::Lost(kind)) => batch.extend(plan.given_up(id, kind)?),
            }
            if batch.len() >= BATCH {
                self.write_batch(frames, &mut batch)?;
                self.write_copies(frames, plan)?;
            }
        }
        if planted::is(Bug::MapBeforeMetablocks) {
            plan.late = batch;
            return Ok(());
        }
        self.write_batch(frames, &mut batch)
    }

    /// The copies that transactions have left go first: they lie beside the arena, and whoever begins waits for them.
    pub(crate) fn write_copies(&self, frames: &Frames, plan: &mut Plan<'_>) -> Result<(), Error> {
        let mut batch = Vec::new();
        for (id, content) in self.checkpoints.stash.take_some(BATCH)? {
            let entry = plan.live(id, &content)?;
            batch.push((entry, content));
        }
        self.write_batch(frames, &mut batch)
    }

    /// The verified content of a metablock at the moment; `None` if it was dead then, or is done already.
    fn content_at(
        &self,
        frames: &Frames,
        moment: &Moment,
        plan: &mut Plan<'_>,
        (id, frame): (MetaId, FrameNo),
    ) -> Result<Option<Content>, Error> {
        let stashed = || Ok(self.checkpoints.stash.take(id)?.map(Content::Whole));
        if let Some(content) = stashed()? {
            return Ok(Some(content));
        }
        let Some(pin) = frames.cache.pin(id).filter(|p| p.frame == frame) else {
            return stashed();
        };
        let mut state = pin.slot().state.lock();
        if state.dirty == 0 || state.dirty > moment.epoch {
            return stashed();
        }
        let mut copy: arena::Copy = Box::new([0; PAGE]);
        if !unless_fenced(self.verified_copy(frames, &pin, &mut copy))? {
            // N-2: what it lacks is told with the fence.
            state.dirty = 0;
            frames.cache.dirty.fetch_sub(1, Ordering::Relaxed);
            let whole = self.fenced_content(frames, id, moment.seq).map(Content::Whole);
            return Ok(Some(
                whole.unwrap_or_else(|| Content::Lost(frames.kind_of_frame(frame, id))),
            ));
        }
        state.dirty = 0;
        state.in_flight = true;
        frames.cache.dirty.fetch_sub(1, Ordering::Relaxed);
        self.checkpoints.in_flight.fetch_add(1, Ordering::Relaxed);
        plan.flying.push((id, frame));
        Ok(Some(Content::Whole(copy)))
    }

    /// Writes contents to both homes, neighbours together, and checks the buffers once more.
    pub fn write_batch(&self, frames: &Frames, batch: &mut Vec<(MapEntry, arena::Copy)>) -> Result<(), Error> {
        let mut writes: Vec<(u64, &[u8])> = Vec::with_capacity(batch.len() * 2);
        for (entry, content) in batch.iter() {
            writes.push((entry.first.get(), &content[..]));
            if entry.second.get() != 0 && !planted::is(Bug::StaleCopy) {
                writes.push((entry.second.get(), &content[..]));
            }
        }
        self.write_runs(frames, &mut writes, Class::Metadata)?;
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
    pub fn write_runs(&self, frames: &Frames, writes: &mut [(u64, &[u8])], class: Class) -> Result<(), Error> {
        writes.sort_unstable_by_key(|(page, _)| *page);
        for run in writes.chunk_by(|a, b| a.0 + 1 == b.0) {
            let parts: Vec<&[u8]> = run.iter().map(|(_, bytes)| *bytes).collect();
            frames.ground.device.write_vectored(PageNo(run[0].0), &parts, class)?;
            frames
                .ground
                .stats
                .bytes_checkpoint
                .fetch_add((parts.len() * PAGE) as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
