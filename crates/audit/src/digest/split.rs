//! A leaf that dies (S-6.5): an entry of it that stands in a leaf of the directory that is born, byte for byte, has only moved,
//! and cancels by itself in every equation but the counts of its leaves.

use super::dirs::{Cursor, More, NAME_LEN, tail};
use super::input::{Block, Fate, Transaction};
use super::sink::Sink;
use super::walk::Walk;
use crate::Page;
use keepfs_format::dir::{DEAD, EntryHead, FIRST, LIVE, entry_size};
use keepfs_format::metablock::HEADER;
use keepfs_format::{Kind, PAGE};

/// Offset of the state in an entry.
const STATE: usize = core::mem::offset_of!(EntryHead, state);
/// Words with a bit for each place where an entry may begin.
const PLACES: usize = PAGE / 4 / 64;

/// A leaf that dies, as it was, and which of its entries have moved.
pub(super) struct Dying {
    /// Which of the transaction's metablocks, if it has one.
    index: Option<usize>,
    owner: u64,
    page: Page,
    tail: usize,
    /// Where the next entry is looked for.
    at: usize,
    moved: [u64; PLACES],
}

/// The bytes of the entry at an offset, if one fits there.
fn bytes(page: &Page, at: usize, tail: usize) -> Option<&[u8]> {
    let rest = page.get(at..tail)?;
    rest.get(..entry_size(usize::from(*rest.get(NAME_LEN)?)))
}

/// What an entry counts in its leaf.
fn more(entry: &[u8]) -> More {
    match entry.get(STATE) {
        Some(&LIVE) => More { live: 1, dead: 0 },
        Some(&DEAD) => More {
            live: 0,
            dead: entry.len() as i64,
        },
        _ => More::default(),
    }
}

impl Dying {
    fn new() -> Dying {
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
    fn take(&mut self, entry: &[u8]) -> bool {
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

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// Keeps the first leaf that dies as it was.
    #[inline(never)]
    pub(super) fn keep_dying(&mut self, order: &[(usize, usize)]) {
        let dies = |block: &Block| block.fate == Fate::Dies && block.kind == Kind::DirLeaf;
        let Some(index) = (0..self.txn.count()).find(|index| dies(&self.txn.block(*index))) else {
            return;
        };
        let mut kept = self.spare.dying.take().unwrap_or_else(|| Box::new(Dying::new()));
        let changes = super::walk::of_block(order, index);
        self.before(index, changes, HEADER, &mut kept.page[HEADER..FIRST]);
        kept.tail = tail(&kept.page).max(FIRST);
        self.before(index, changes, FIRST, &mut kept.page[FIRST..kept.tail]);
        (kept.index, kept.owner) = (Some(index), self.txn.block(index).owner);
        (kept.at, kept.moved) = (FIRST, [0; PLACES]);
        self.spare.dying = Some(kept);
    }

    /// The entry under the cursor of a leaf that is born, if it has moved there; the cursor goes on.
    pub(super) fn moved(&mut self, block: &Block, page: &Page, cursor: &mut Cursor) -> Option<More> {
        let dying = self.spare.dying.as_deref_mut()?;
        if dying.index.is_none() || dying.owner != block.owner {
            return None;
        }
        let entry = bytes(page, cursor.at, cursor.tail)?;
        if !dying.take(entry) {
            return None;
        }
        cursor.at += entry.len();
        Some(more(entry))
    }

    /// Tells what a leaf that dies loses, if it is the one that is kept.
    pub(super) fn dying_leaf(&mut self, block: &Block, index: usize) -> bool {
        let Some(kept) = self.spare.dying.take_if(|kept| kept.index == Some(index)) else {
            return false;
        };
        let mut found = More::default();
        let mut cursor = Cursor::new(kept.tail);
        while let Some(entry) = bytes(&kept.page, cursor.at, cursor.tail) {
            if kept.moved[cursor.at / 4 / 64 % PLACES] >> (cursor.at / 4 % 64) & 1 == 1 {
                found -= more(entry);
                cursor.at += entry.len();
                continue;
            }
            let was = cursor.next(&kept.page);
            found += self.came_and_went(block, was, None);
        }
        let head = super::dirs::head(&kept.page);
        self.tell_leaf(block, (&head, &Default::default()), found);
        self.spare.dying = Some(kept);
        true
    }
}

#[cfg(test)]
mod tests;
