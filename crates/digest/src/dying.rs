//! A directory leaf that dies, kept as it was (S-6.5).

use crate::leaf::NAME_LEN;
use keepfs_format::dir::{FIRST, entry_size};
use keepfs_format::{PAGE, Page};

/// Words with a bit for each place where an entry may begin.
pub(crate) const PLACES: usize = PAGE / 4 / 64;

/// A leaf that dies, as it was, and which of its entries have moved.
pub(crate) struct Dying {
    /// Which of the transaction's metablocks, if it has one.
    pub index: Option<usize>,
    pub owner: u64,
    pub page: Page,
    pub tail: usize,
    /// Where the next entry is looked for.
    pub at: usize,
    pub moved: [u64; PLACES],
}

/// The bytes of the entry at an offset, if one fits there.
pub(crate) fn bytes(page: &Page, at: usize, tail: usize) -> Option<&[u8]> {
    let rest = page.get(at..tail)?;
    rest.get(..entry_size(usize::from(*rest.get(NAME_LEN)?)))
}

impl Dying {
    /// No leaf.
    pub fn new() -> Dying {
        Dying {
            index: None,
            owner: 0,
            page: [0; PAGE],
            tail: FIRST,
            at: FIRST,
            moved: [0; PLACES],
        }
    }

    /// Forgets the leaf.
    pub fn forget(&mut self) {
        self.index = None;
    }

    /// Entries are looked for from the first one on.
    pub fn rewind(&mut self) {
        self.at = FIRST;
    }

    /// Takes an entry with these bytes that has not been taken yet, behind the one that was taken last: entries of a leaf
    /// that is split keep their order, and others are told as if it were none.
    pub fn take(&mut self, entry: &[u8]) -> bool {
        let mut at = self.at;
        while let Some(had) = bytes(&self.page, at, self.tail) {
            let place = &mut self.moved[at / 4 / 64 % PLACES];
            let bit = 1 << (at / 4 % 64);
            let is_same = had.first_chunk::<8>() == entry.first_chunk() && had == entry;
            at += had.len();
            if is_same && *place & bit == 0 {
                *place |= bit;
                self.at = at;
                return true;
            }
        }
        false
    }
}
