//! Map pages that the next checkpoint writes anew, counted while metablocks become dirty (SPEC S-10.5).
//!
//! Recomputable from the dirty frames; it therefore lies in the heap.

use crate::gate::Closed;
use crate::locks::Mutex;
use crate::{Flash, Store};
use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_flash::ids::IdHasher;
use keepfs_format::MetaId;
use keepfs_format::map::{FANOUT, HEIGHT_MAX};
use keepfs_format::superblock::Root;
use std::collections::HashSet;

type Pages = HashSet<MetaId, BuildHasherDefault<IdHasher>>;

#[derive(Default)]
struct Inner {
    /// Of changes since the last barrier.
    current: Pages,
    /// Of the checkpoint whose superblock is not durable yet.
    flying: Pages,
}

/// The map pages above everything that changed since the last durable checkpoint.
#[derive(Default)]
pub struct Rewrites {
    inner: Mutex<Inner>,
    count: AtomicU64,
}

impl Rewrites {
    /// The metablock `id` changes, so its map page does, and those above it, `height` in all; where the map grows over
    /// its `old` height, the old root is put under new pages too.
    fn add(&self, id: MetaId, old: u8, height: u8) {
        let Some(space) = id.space() else { return };
        let mut inner = self.inner.lock();
        let mut number = id.index();
        for level in 0..height {
            number /= FANOUT;
            // Whoever added this page added those above it.
            if !inner.current.insert(MetaId::map(space, level, number)) {
                break;
            }
            if level >= old.max(1) {
                inner.current.insert(MetaId::map(space, level, 0));
            }
        }
        self.tell(&inner);
    }

    fn tell(&self, inner: &Inner) {
        let count = inner.current.len() + inner.flying.len();
        self.count.store(count as u64, Ordering::Relaxed);
    }

    /// How many there are, from above.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// A checkpoint has its moment: what changed before belongs to it.
    pub fn barrier(&self, _shut: &Closed<'_>) {
        let mut inner = self.inner.lock();
        inner.flying = core::mem::take(&mut inner.current);
        self.tell(&inner);
    }

    /// Its superblock is durable.
    pub fn installed(&self) {
        let mut inner = self.inner.lock();
        inner.flying.clear();
        self.tell(&inner);
    }
}

impl Flash {
    /// The map entry of `id` will change.
    pub(crate) fn map_changes(&self, store: &Store, id: MetaId) {
        let Some(space) = id.space() else { return };
        let Ok(Root { height: old, .. }) = self.root(store, space) else {
            return;
        };
        let mut height = old.max(1);
        while height < HEIGHT_MAX && id.index() >= FANOUT.saturating_pow(u32::from(height)) {
            height += 1;
        }
        self.checkpoints.rewrites.add(id, old, height);
    }

    /// Most metablocks and map pages that may wait for a checkpoint now.
    pub(crate) fn rewrite_most(&self) -> u64 {
        self.checkpoints
            .rewrite_limit
            .min(self.checkpoints.rewrite_now.load(Ordering::Relaxed))
    }

    /// Whether so much waits for a checkpoint that nothing may be added.
    pub(crate) fn is_at_limit(&self, store: &Store) -> bool {
        self.weight(store) >= self.rewrite_most()
    }

    /// Metablocks and map pages that were changed and are in no durable checkpoint, from above.
    pub(crate) fn weight(&self, store: &Store) -> u64 {
        let dirty = store.frames.cache.dirty.load(Ordering::Relaxed);
        dirty + self.checkpoints.in_flight.load(Ordering::Relaxed) + self.checkpoints.rewrites.count()
    }
}
