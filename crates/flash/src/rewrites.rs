//! Map pages that the next checkpoint writes anew, counted while metablocks become dirty (SPEC S-10.5).
//!
//! Recomputable from the dirty frames; it therefore lies in the heap.

use crate::gate::Closed;
use core::hash::BuildHasherDefault;
use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::MetaId;
use keepfs_format::map::FANOUT;
use keepfs_frames::ids::IdHasher;
use keepfs_vault::locks::Mutex;
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
    pub fn add(&self, id: MetaId, old: u8, height: u8) {
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
    #[inline]
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
