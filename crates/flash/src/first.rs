//! Before a transaction's first write to a frame a checkpoint that still needs it as it is gets a copy.

use crate::error::{Pressure, Stop};
use crate::home::Flash;
use core::sync::atomic::Ordering;
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::{Frames, Pin};
use keepfs_vault::arena;

impl Flash {
    /// Before a transaction's first write to a frame: if a checkpoint still needs the frame as it is, it gets a copy.
    /// With `bounded`, a frame that is not dirty yet stays so where no more may wait for a checkpoint (S-10.5).
    pub fn before_first_write(&self, frames: &Frames, id: MetaId, pin: &Pin<'_>, bounded: bool) -> Result<(), Stop> {
        let epoch = self.checkpoints.epoch.load(Ordering::Acquire);
        let mut state = pin.slot().state.lock();
        if state.dirty == epoch {
            return Ok(());
        }
        if bounded && self.is_at_limit(frames) {
            return Err(Stop::Pressure(Pressure::Checkpoint));
        }
        if state.dirty == 0 {
            frames.cache.dirty.fetch_add(1, Ordering::Relaxed);
        } else {
            let mut copy: arena::Copy = Box::new([0; PAGE]);
            self.verified_copy(frames, pin, &mut copy)?;
            self.checkpoints.stash.keep(id, copy);
        }
        state.dirty = epoch;
        self.checkpoints.dirty.lock().push([id.0, u64::from(pin.frame)]);
        drop(state);
        self.map_changes(frames, id);
        Ok(())
    }
}
