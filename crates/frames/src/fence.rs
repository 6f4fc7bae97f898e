//! The fence: a metablock that no rung could mend is left out of all that goes on, and everything else goes on (S-15.17;
//! promise C-6).
//!
//! Invariants:
//! N-1 Nobody reads or writes a fenced metablock: the frame is never verified again, and what needs it gets EIO.
//! N-2 What a checkpoint writes of it is what device, log and redo tell, never a byte of its frame; where they do not tell all
//!     of it, its map entry says that it is lost (S-4.8).
//! N-3 Only metablocks of one owner are fenced. What all share (bitmaps, totals, the map, HOMES) ends writing; who only reads
//!     goes on without it (S-9.10).
//! N-4 A metablock that a recovery could not read is fenced before anybody reads it, and lost with the checkpoint behind (S-4.8),
//!     lest the page be believed without what the log had for it.

use crate::ids::IdMap;
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_format::{MetaId, PAGE, Space, inode};
use keepfs_pool::{Error, may_be_fenced};
use keepfs_vault::locks::Mutex;
use std::sync::OnceLock;

/// The metablocks that are fenced.
#[derive(Default)]
pub struct Fences {
    any: AtomicBool,
    ids: Mutex<IdMap<MetaId, ()>>,
    /// Those of N-4, until a checkpoint has them.
    at_rest: Mutex<IdMap<MetaId, ()>>,
    /// What is missing that only writers need.
    missing: OnceLock<String>,
}

impl Fences {
    /// Fences a metablock, if it is one that may be (N-3). Tells whether it is fenced, and whether it was not before.
    pub fn fence(&self, id: MetaId) -> Option<bool> {
        let may = may_be_fenced(id);
        may.then(|| self.add(id))
    }

    /// The metablocks that the next checkpoint tells as lost (N-4).
    pub fn lost_at_rest(&self) -> Vec<MetaId> {
        core::mem::take(&mut *self.at_rest.lock()).into_keys().collect()
    }

    /// A metablock that a recovery could not read is fenced (N-4). Whether it was not before.
    pub fn lose_at_rest(&self, id: MetaId) -> bool {
        let is_new = may_be_fenced(id) && self.add(id);
        if is_new {
            self.at_rest.lock().insert(id, ());
        }
        is_new
    }

    /// This is missing that only writers need.
    pub fn is_missing(&self, what: String) {
        self.missing.get_or_init(|| what);
    }

    /// Errors: something is missing that whoever writes needs (S-9.22).
    pub fn has_what_writers_need(&self) -> Result<(), Error> {
        self.missing.get().map_or(Ok(()), |what| Err(unwritable(what)))
    }

    /// Whether a metablock is fenced.
    #[inline]
    pub fn has(&self, id: MetaId) -> bool {
        self.any.load(Ordering::Acquire) && self.ids.lock().contains_key(&id)
    }

    /// Fences it; `false` if it was.
    fn add(&self, id: MetaId) -> bool {
        let is_new = self.ids.lock().insert(id, ()).is_none();
        self.any.store(true, Ordering::Release);
        is_new
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ids.lock().len()
    }

    /// What was here is gone: who comes next has this number anew.
    pub fn died(&self, id: MetaId) {
        self.ids.lock().remove(&id);
        self.at_rest.lock().remove(&id);
    }
}

/// The inodes in this content of a metablock that live; none if it is not one of inodes.
pub fn living(id: MetaId, content: &[u8; PAGE]) -> Vec<u64> {
    if id.space() != Some(Space::Inodes) {
        return Vec::new();
    }
    let first = id.index() * inode::PER_BLOCK;
    let lives = |ino: &u64| {
        let slot = content.get(inode::offset_of(*ino)..);
        let word = slot.and_then(|slot| slot.first_chunk());
        word.is_some_and(|word| u32::from_le_bytes(*word) == inode::LIVE)
    };
    (first..first + inode::PER_BLOCK).filter(lives).collect()
}

/// Why a pool is not written.
pub fn unwritable(what: &str) -> Error {
    Error::Damaged(format!(
        "{what}, and nothing can be written without it; mount it read-only (-o ro) and copy what you need to a new pool"
    ))
}

/// A frame was verified, or is fenced: for who only wants what goes to the device to be right.
pub fn unless_fenced(verified: Result<(), Error>) -> Result<bool, Error> {
    match verified {
        Ok(()) => Ok(true),
        Err(Error::Fenced { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
