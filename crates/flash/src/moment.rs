//! What a checkpoint needs of its moment while transactions go on: copies of frames, and deaths.
//!
//! Invariants:
//! M-1 A frame that was dirty at the moment and is not copied yet is copied before a newer transaction writes to it.
//! M-2 A copy is what it was when it was verified, or the checkpoint does not write it (C-3): it lies in the heap for as
//!     long as a checkpoint takes.
//! M-3 A metablock's last death is found here until a map that says so is in force.

use crate::error::Error;
use crate::redo::Span;
use crate::staged::Carried;
use crate::watched::{WatchedList, WatchedMap};
use core::sync::atomic::{AtomicUsize, Ordering};
use keepfs_codes::crc64;
use keepfs_format::MetaId;
use keepfs_frames::ids::IdMap;
use keepfs_vault::arena;
use keepfs_vault::locks::Mutex;
use std::sync::Arc;

/// Everything that belongs to the moment of the barrier.
pub struct Moment {
    /// Which.
    pub epoch: u64,
    /// The last transaction before it.
    pub seq: u64,
    /// What became dirty before it.
    pub dirty: WatchedList<Dirty>,
    /// What died before it.
    pub deaths: Arc<Died>,
    /// Redo that no group has.
    pub pending: Span,
    /// What is staged.
    pub carried: Vec<Carried>,
    /// Map pages of which a copy is bad, or that go to another chunk.
    pub rewrite: Vec<MetaId>,
}

/// Copies of frames as of a checkpoint's moment, taken before a newer transaction wrote to them.
#[derive(Default)]
pub struct Stash {
    copies: Mutex<IdMap<MetaId, Kept>>,
    /// How many; changes under the lock, and is looked at before every transaction.
    count: AtomicUsize,
}

/// A copy and its CRC-64 (M-2).
struct Kept {
    copy: arena::Copy,
    sum: u64,
}

impl Kept {
    fn check(self, id: MetaId) -> Result<arena::Copy, Error> {
        let (found, expected) = (crc64::full(&self.copy[..]), self.sum);
        match found == expected {
            true => Ok(self.copy),
            false => Err(Error::Scribble { id, found, expected }),
        }
    }
}

impl Stash {
    /// Copies kept.
    #[inline]
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn tell(&self, copies: &IdMap<MetaId, Kept>) {
        self.count.store(copies.len(), Ordering::Relaxed);
    }

    /// Keeps a copy that was just verified.
    pub fn keep(&self, id: MetaId, copy: arena::Copy) {
        let sum = crc64::full(&copy[..]);
        let mut copies = self.copies.lock();
        copies.insert(id, Kept { copy, sum });
        self.tell(&copies);
    }

    /// The copy of `id`, if there is one. Errors: `Scribble`.
    pub fn take(&self, id: MetaId) -> Result<Option<arena::Copy>, Error> {
        let mut copies = self.copies.lock();
        let kept = copies.remove(&id);
        self.tell(&copies);
        drop(copies);
        kept.map(|kept| kept.check(id)).transpose()
    }

    /// Up to `most` copies: a checkpoint writes them first, since they lie beside the arena. Errors: `Scribble`.
    pub fn take_some(&self, most: usize) -> Result<Vec<(MetaId, arena::Copy)>, Error> {
        let mut copies = self.copies.lock();
        let ids: Vec<MetaId> = copies.keys().take(most).copied().collect();
        let kept: Vec<(MetaId, Kept)> = ids
            .into_iter()
            .filter_map(|id| copies.remove(&id).map(|kept| (id, kept)))
            .collect();
        self.tell(&copies);
        drop(copies);
        kept.into_iter().map(|(id, kept)| Ok((id, kept.check(id)?))).collect()
    }

    /// A stray write into a copy.
    #[cfg(test)]
    fn scribble(&self, id: MetaId, at: usize) {
        if let Some(kept) = self.copies.lock().get_mut(&id) {
            kept.copy[at] ^= 0x40;
        }
    }
}

/// Generations with which metablocks died.
pub type Died = WatchedMap<u32>;

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
        self.0.lock().new.insert(id.0, generation);
    }

    /// Generation of its last death, if no map in force has it.
    #[inline]
    pub fn get(&self, id: MetaId) -> Result<Option<u32>, Error> {
        let lists = self.0.lock();
        match lists.new.get(id.0)? {
            Some(generation) => Ok(Some(generation)),
            None => Ok(lists.flying.get(id.0)?),
        }
    }

    /// The moment of a checkpoint: those up to now belong to it. They are still found here.
    pub fn depart(&self) -> Arc<Died> {
        let mut lists = self.0.lock();
        lists.flying = Arc::new(core::mem::take(&mut lists.new));
        lists.flying.clone()
    }

    /// What a test does to them.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble(&self, change: impl FnOnce(&mut Died)) {
        change(&mut self.0.lock().new);
    }

    /// The map of the checkpoint is in force.
    pub fn arrived(&self) {
        let gone = core::mem::take(&mut self.0.lock().flying);
        drop(gone);
    }
}

/// A metablock that was changed: its id, and its frame.
pub type Dirty = [u64; 2];

#[cfg(test)]
mod tests;
