//! Which entries of the list of damages are of what is not damaged any more (S-18.8).
//!
//! Nothing is asked of the device again that was asked and has not changed: a disk that takes a minute to refuse a page must not make
//! everybody wait who wants to know how the pool is.

use crate::Volume;
use crate::blockmap;
use crate::errors::Error;
use crate::inode;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::blockmap::LOST;
use keepfs_format::history::Lasting;
use keepfs_format::inode::BODY_INLINE;
use keepfs_format::{MetaId, map::MapEntry};
use keepfs_vfs::Errno;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Metablocks that were found bad, with the map entries under which they were.
#[derive(Default)]
pub(crate) struct KnownBad(Mutex<BTreeMap<u64, MapEntry>>);

/// Whether what was done leaves something lost that may be whole again: fenced, writing ended, nothing (S-18.5). What a repair gave up
/// is not (S-21.11).
fn is_lost(entry: &Lasting) -> bool {
    (8..=10).contains(&entry.done)
}

impl Volume {
    /// Takes from the list of damages what was written anew, is gone, or reads as it was written (S-18.8).
    pub fn heal_damage(&self) {
        let history = self.store.history();
        let list = history.damage().into_iter();
        let healed: Vec<Lasting> = list
            .filter(|entry| is_lost(entry) && self.is_whole_again(entry))
            .collect();
        history.heal(&healed);
    }

    /// Whether the list of damages tells of a staged page that was lost and is lost still: with it went changes that were answered (S-16.14).
    pub(crate) fn has_staged_loss_to_note(&self) -> bool {
        let list = self.store.history().damage();
        let mut staged = list.iter().filter(|entry| entry.is_of_staged());
        staged.any(|entry| !self.is_whole_again(entry))
    }

    fn is_whole_again(&self, entry: &Lasting) -> bool {
        match (entry.id, entry.inode) {
            (0, 0) => false,
            (0, ino) => self.is_page_whole(ino, entry.from / PAGE as u64),
            (id, _) => self.is_metablock_whole(MetaId(id)),
        }
    }

    fn is_metablock_whole(&self, id: MetaId) -> bool {
        let known = self.known_bad.0.lock().get(&id.0).copied();
        match self.store.is_whole_at_rest(id, known.as_ref()) {
            Ok(is_whole) => is_whole,
            Err(entry) => {
                self.known_bad.0.lock().insert(id.0, entry);
                false
            }
        }
    }

    /// Whether a page of a file is what was written last; what is gone is.
    fn is_page_whole(&self, ino: u64, index: u64) -> bool {
        let _lock = self.locks.shared(ino);
        let inode = match self.see(|view| inode::live(view, ino)) {
            Ok(inode) => inode,
            Err(error) => return matches!(error, Error::Posix(Errno::ESTALE)),
        };
        if self.store.staged_lost().contains(&(ino, index)) {
            return false;
        }
        let Some(entry) = (inode.body != BODY_INLINE).then(|| self.entry_at(ino, &inode, index)) else {
            return true;
        };
        let Ok(entry) = entry else { return false };
        if self.store.staged_pages(ino).binary_search(&index).is_ok() {
            return true;
        }
        if entry.flags() == LOST || self.lost.has(ino, index, &entry) {
            return false;
        }
        let mut page = [0; PAGE];
        let read = !blockmap::is_written(&entry) || self.store.read_data(entry.page(), &mut page).is_ok();
        let is_right = read && (!blockmap::is_written(&entry) || crc32c::of(&page) == entry.crc.get());
        if !is_right {
            self.lost.note(ino, index, entry, self.store.times_noted());
        }
        is_right
    }
}
