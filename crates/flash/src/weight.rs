//! How much waits for a checkpoint (SPEC S-10.5).

use crate::home::Flash;
use core::sync::atomic::Ordering;
use keepfs_format::MetaId;
use keepfs_format::map::{FANOUT, HEIGHT_MAX};
use keepfs_format::superblock::Root;
use keepfs_frames::Frames;

impl Flash {
    /// The map entry of `id` will change.
    pub fn map_changes(&self, frames: &Frames, id: MetaId) {
        let Some(space) = id.space() else { return };
        let Ok(Root { height: old, .. }) = self.root(frames, space) else {
            return;
        };
        let mut height = old.max(1);
        while height < HEIGHT_MAX && id.index() >= FANOUT.saturating_pow(u32::from(height)) {
            height += 1;
        }
        self.checkpoints.rewrites.add(id, old, height);
    }

    /// Most metablocks and map pages that may wait for a checkpoint now.
    pub fn rewrite_most(&self) -> u64 {
        self.checkpoints
            .rewrite_limit
            .min(self.checkpoints.rewrite_now.load(Ordering::Relaxed))
    }

    /// Whether so much waits for a checkpoint that nothing may be added.
    pub fn is_at_limit(&self, frames: &Frames) -> bool {
        self.weight(frames) >= self.rewrite_most()
    }

    /// Metablocks and map pages that were changed and are in no durable checkpoint, from above.
    pub fn weight(&self, frames: &Frames) -> u64 {
        let dirty = frames.cache.dirty.load(Ordering::Relaxed);
        dirty + self.checkpoints.in_flight.load(Ordering::Relaxed) + self.checkpoints.rewrites.count()
    }
}
