//! What a checkpoint needs of its moment while transactions go on: copies of frames, and deaths.
//!
//! Invariants:
//! M-1 A frame that was dirty at the moment and is not copied yet is copied before a newer transaction writes to it.
//! M-2 A metablock's last death is found here until a map that says so is in force.

use crate::arena;
use crate::cache::{IdMap, Pin};
use crate::error::Stop;
use crate::{PAGE, Store};
use core::sync::atomic::Ordering;
use keepfs_format::MetaId;
use parking_lot::Mutex;
use std::sync::Arc;

/// Copies of frames as of a checkpoint's moment, taken before a newer transaction wrote to them.
#[derive(Default)]
pub struct Stash(Mutex<IdMap<MetaId, arena::Copy>>);

impl Stash {
    /// Copies kept.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Keeps a copy.
    pub fn keep(&self, id: MetaId, copy: arena::Copy) {
        self.0.lock().insert(id, copy);
    }

    /// The copy of `id`, if there is one.
    pub fn take(&self, id: MetaId) -> Option<arena::Copy> {
        self.0.lock().remove(&id)
    }

    /// Up to `most` copies: a checkpoint writes them first, since they lie beside the arena.
    pub fn take_some(&self, most: usize) -> Vec<(MetaId, arena::Copy)> {
        let mut copies = self.0.lock();
        if copies.is_empty() {
            return Vec::new();
        }
        let ids: Vec<MetaId> = copies.keys().take(most).copied().collect();
        ids.into_iter()
            .filter_map(|id| copies.remove(&id).map(|copy| (id, copy)))
            .collect()
    }
}

/// Generations with which metablocks died.
pub type Died = IdMap<MetaId, u32>;

/// Metablocks that died and whose death is in no checkpoint in force.
#[derive(Default)]
pub struct Deaths(Mutex<Lists>);

#[derive(Default)]
struct Lists {
    new: Died,
    /// Those that the checkpoint being written contains.
    flying: Arc<Died>,
}

impl Deaths {
    /// `id` died with this generation.
    pub fn insert(&self, id: MetaId, generation: u32) {
        self.0.lock().new.insert(id, generation);
    }

    /// Generation of its last death, if no map in force has it.
    pub fn get(&self, id: MetaId) -> Option<u32> {
        let lists = self.0.lock();
        lists.new.get(&id).or_else(|| lists.flying.get(&id)).copied()
    }

    /// The moment of a checkpoint: those up to now belong to it. They are still found here.
    pub fn depart(&self) -> Arc<Died> {
        let mut lists = self.0.lock();
        lists.flying = Arc::new(core::mem::take(&mut lists.new));
        lists.flying.clone()
    }

    /// The map of the checkpoint is in force.
    pub fn arrived(&self) {
        let gone = core::mem::take(&mut self.0.lock().flying);
        drop(gone);
    }
}

impl Store {
    /// Before a transaction's first write to a frame: if a checkpoint still needs the frame as it is, it gets a copy.
    pub(crate) fn before_first_write(&self, id: MetaId, pin: &Pin<'_>) -> Result<(), Stop> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let mut state = pin.slot().state.lock();
        if state.dirty == epoch {
            return Ok(());
        }
        if state.dirty == 0 {
            self.cache.dirty.fetch_add(1, Ordering::Relaxed);
        } else {
            let mut copy: arena::Copy = Box::new([0; PAGE]);
            self.verified_copy(pin, &mut copy)?;
            self.stash.keep(id, copy);
        }
        state.dirty = epoch;
        self.dirty_list.lock().push((id, pin.frame));
        Ok(())
    }
}
