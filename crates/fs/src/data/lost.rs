//! Files of which data is known to be lost: pages that the device took nowhere (S-7.6), pages read with a wrong CRC.
//!
//! What lies here is for fsync and status; the truth is the page entry, and every look compares with it.

use crate::Volume;
use crate::errors::{Error, Result};
use keepfs_format::blockmap::{LOST, PageEntry};
use keepfs_store::{BadData, Error as StoreError};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Most pages remembered.
const KNOWN_MAX: usize = 1 << 16;

/// Pages known to be lost, with their entries: an entry that is another one by now has healed. Each with how often somebody had taken
/// note of all that was told when it was told.
#[derive(Default)]
pub(crate) struct LostPages {
    known: Mutex<BTreeMap<(u64, u64), (PageEntry, u64)>>,
    /// Why the last write-out of staged data failed, if the device refused it.
    refusal: Mutex<Option<StoreError>>,
}

impl LostPages {
    /// Remembers a page; `true` if it was not known since somebody took note for the last time, the `noted`th.
    fn add(&self, ino: u64, index: u64, entry: PageEntry, noted: u64) -> bool {
        let mut known = self.known.lock();
        (known.len() < KNOWN_MAX || known.contains_key(&(ino, index)))
            && known.insert((ino, index), (entry, noted)) != Some((entry, noted))
    }

    /// Whether a page is remembered with this entry.
    pub fn has(&self, ino: u64, index: u64, entry: &PageEntry) -> bool {
        self.known
            .lock()
            .get(&(ino, index))
            .is_some_and(|known| known.0 == *entry)
    }

    /// Remembers a page that the list of damages has already.
    pub fn note(&self, ino: u64, index: u64, entry: PageEntry, noted: u64) {
        self.add(ino, index, entry, noted);
    }

    fn of(&self, ino: u64) -> Vec<(u64, PageEntry)> {
        let known = self.known.lock();
        let pages = known.range((ino, 0)..=(ino, u64::MAX));
        pages.map(|((_, index), (entry, _))| (*index, *entry)).collect()
    }

    /// Whether a page of the inode is remembered.
    pub fn knows(&self, ino: u64) -> bool {
        self.known.lock().range((ino, 0)..=(ino, u64::MAX)).next().is_some()
    }

    /// Inodes with pages that are remembered, ascending.
    pub fn inodes(&self) -> Vec<u64> {
        let mut inodes: Vec<u64> = self.known.lock().keys().map(|(ino, _)| *ino).collect();
        inodes.dedup();
        inodes
    }

    /// A write-out failed.
    pub fn note_refusal(&self, error: &Error) {
        if let Error::Refused(error) = error {
            *self.refusal.lock() = Some(error.clone());
        }
    }

    /// A write-out succeeded.
    pub fn note_success(&self) {
        *self.refusal.lock() = None;
    }

    /// The refusal that stopped the last write-out.
    pub fn refusal(&self) -> Option<StoreError> {
        self.refusal.lock().clone()
    }

    fn healed(&self, ino: u64, index: u64, entry: PageEntry) {
        let mut known = self.known.lock();
        if known.get(&(ino, index)).is_some_and(|known| known.0 == entry) {
            known.remove(&(ino, index));
        }
    }
}

impl Volume {
    /// A page of a file cannot be read back: it is remembered, told once, and once more behind each time that somebody took note
    /// of it, counted each time, and answered.
    pub(crate) fn bad_page(&self, ino: u64, index: u64, entry: &PageEntry, bad: BadData) -> Error {
        if entry.flags() != LOST {
            self.store.data_is_bad();
        }
        if self.lost.add(ino, index, *entry, self.store.times_noted()) {
            tracing::error!(
                ino,
                page = index,
                "a page of this inode cannot be read back as it was written; write it anew, or restore the file"
            );
            self.store.tell_bad_data(ino, index, entry.page(), bad);
        } else {
            self.store.met_bad_data_again(ino, index, entry.page());
        }
        Error::BadPage { ino, index }
    }

    /// Pages just became lost. Called with the exclusive lock held.
    pub(crate) fn remember_lost(&self, ino: u64, first: u64, count: u64) -> Result<()> {
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        for index in first..first + count {
            let entry = self.entry_at(ino, &inode, index)?;
            self.lost.add(ino, index, entry, self.store.times_noted());
        }
        Ok(())
    }

    /// The first page of a file that is known to be lost, with its entry, and still is.
    fn still_lost(&self, ino: u64, wanted: impl Fn(&PageEntry) -> bool) -> Option<u64> {
        for (index, entry) in self.lost.of(ino) {
            let now = self.see(|view| {
                let inode = crate::inode::live(view, ino)?;
                let mut now = [PageEntry::HOLE];
                crate::blockmap::get(view, ino, &inode, index, &mut now)?;
                Ok(now[0])
            });
            match now {
                Ok(now) if now == entry && wanted(&entry) => return Some(index),
                Ok(now) if now == entry => {}
                _ => self.lost.healed(ino, index, entry),
            }
        }
        None
    }

    /// For fsync: data of this file that was acknowledged is nowhere. Errors: [`Error::BadPage`]. Called with the
    /// inode's lock held.
    pub(crate) fn nothing_lost(&self, ino: u64) -> Result<()> {
        if let Some((ino, index)) = self.store.staged_lost().into_iter().find(|lost| lost.0 == ino) {
            return Err(Error::BadPage { ino, index });
        }
        match self.still_lost(ino, |entry| entry.flags() == LOST) {
            Some(index) => Err(Error::BadPage { ino, index }),
            None => Ok(()),
        }
    }

    /// Whether some data of the inode may be lost.
    pub(crate) fn may_have_lost(&self, ino: u64) -> bool {
        self.lost.knows(ino) || self.store.staged_lost().iter().any(|lost| lost.0 == ino)
    }

    /// How many files are known to have lost data, as far as it was noticed since the volume was opened.
    pub fn files_with_lost_data(&self) -> u64 {
        let is_lost = |ino: &u64| {
            let _lock = self.locks.shared(*ino);
            self.still_lost(*ino, |_| true).is_some()
        };
        let staged = self.store.staged_lost().into_iter().map(|(ino, _)| ino);
        let mut files: BTreeSet<u64> = self.lost.inodes().into_iter().filter(is_lost).collect();
        files.extend(staged);
        files.len() as u64
    }
}
