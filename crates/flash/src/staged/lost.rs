//! Staged pages that are lost: bad memory, a bad device page under them, or a log that says so (S-8.8, S-14.6).

use super::slots::{self, Head};
use super::{Full, Key, Table};
use keepfs_format::PAGE;

impl Table {
    /// Whether a staged page is known to be lost; `None` if it is not staged.
    pub fn is_lost(&self, ino: u64, index: u64) -> Option<bool> {
        self.pages.get(&(ino, index)).map(|placed| placed.lost)
    }

    /// The staged pages that are known to be lost, ascending.
    pub fn all_lost(&self) -> Vec<Key> {
        let lost = self.pages.iter().filter(|(_, placed)| placed.lost);
        let most = if self.lost == 0 { 0 } else { usize::MAX };
        lost.take(most).map(|(key, _)| *key).collect()
    }

    /// A staged page is not what was staged: it is lost until it is staged whole or dropped (S-14.6). `false` if that was
    /// known, or it is not staged.
    pub fn lose(&mut self, ino: u64, index: u64) -> bool {
        let key = (ino, index);
        let Some(placed) = self.pages.get_mut(&key).filter(|placed| !placed.lost) else {
            return false;
        };
        placed.lost = true;
        self.lost += 1;
        let head = Head {
            damaged: true,
            stamp: placed.stamp,
            ..self.slots.head_or(key, placed)
        };
        self.slots.name_lost(placed.slot, &head);
        self.patches.remove(&key);
        true
    }

    /// A log says that a page is lost.
    pub(super) fn stage_lost(&mut self, key: Key) -> Result<(), Full> {
        if !self.has(key.0, key.1) {
            self.stamp += 1;
            let head = slots::unknown(key, false, self.stamp);
            let stored = self.slots.put(&head, &[0; PAGE])?;
            self.placed(None, &head, &stored);
        }
        self.lose(key.0, key.1);
        Ok(())
    }
}
