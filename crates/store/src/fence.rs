//! The fence: a metablock that no rung could mend is left out of all that goes on, and everything else goes on (S-15.17;
//! promise C-6).
//!
//! Invariants:
//! N-1 Nobody reads or writes a fenced metablock: the frame is never verified again, and what needs it gets EIO.
//! N-2 What a checkpoint writes of it is what device, log and whole redo tell, never a byte of its frame; where they tell
//!     nothing, its map entry stays as it is.
//! N-3 Only metablocks of one owner are fenced. What all share (bitmaps, totals, the map, HOMES) ends writing.

use crate::Store;
use crate::arena;
use crate::cache::IdMap;
use crate::error::Error;
use crate::events::{Damage, Done};
use crate::locks::Mutex;
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_format::{MetaId, PAGE, Space, inode};

/// The metablocks that are fenced.
#[derive(Default)]
pub(crate) struct Fences {
    any: AtomicBool,
    ids: Mutex<IdMap<MetaId, ()>>,
}

impl Fences {
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

    fn count(&self) -> usize {
        self.ids.lock().len()
    }
}

/// Whether a metablock is one that may be fenced (N-3).
pub(crate) fn may(id: MetaId) -> bool {
    matches!(id.space(), Some(Space::Nodes | Space::Inodes)) && id.as_map().is_none()
}

/// The inodes in this content of a metablock that live; none if it is not one of inodes.
fn living(id: MetaId, content: &[u8; PAGE]) -> Vec<u64> {
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

impl Store {
    /// Fences a metablock, if it is one that may be (N-3). Tells whether it is fenced, and whether it was not before.
    pub(crate) fn fence(&self, id: MetaId) -> Option<bool> {
        let may = may(id);
        may.then(|| self.fences.add(id))
    }

    /// How many metablocks are fenced.
    pub fn fenced(&self) -> usize {
        self.fences.count()
    }

    /// What a checkpoint writes of a fenced metablock (N-2).
    pub(crate) fn fenced_content(&self, id: MetaId) -> Option<arena::Copy> {
        self.told_content(id).map(|(content, _)| content)
    }

    /// Tells that a metablock was fenced: of inodes each that lives, and what is lost (S-15.17).
    pub(crate) fn tell_fenced(&self, damage: &Damage) {
        let content = self.told_content(damage.id);
        let (more, inodes) = match content {
            Some((content, last)) => {
                let more = format!(
                    "of what was committed up to {}, it has all up to {last}",
                    self.last_seq()
                );
                (more, living(damage.id, &content))
            }
            None => ("what the device has of it stays as it is".to_owned(), Vec::new()),
        };
        self.tell_with(damage, Done::Fenced, more, &inodes);
    }

    /// A frame was verified, or is fenced: for who only wants what goes to the device to be right.
    pub(crate) fn unless_fenced(&self, verified: Result<(), Error>) -> Result<bool, Error> {
        match verified {
            Ok(()) => Ok(true),
            Err(Error::Fenced { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
