//! A leaf that dies (S-6.5): an entry of it that stands in a leaf of the directory that is born, byte for byte, has only moved,
//! and cancels by itself in every equation but the counts of its leaves.

use crate::dying::{Dying, PLACES, bytes};
use crate::input::{Block, Fate, Transaction};
use crate::leaf::{Cursor, More, head, tail};
use crate::sink::Sink;
use crate::walk::{Walk, of_block};
use keepfs_format::dir::{DEAD, EntryHead, FIRST, LIVE};
use keepfs_format::metablock::HEADER;
use keepfs_format::{Kind, Page};

/// Offset of the state in an entry.
const STATE: usize = core::mem::offset_of!(EntryHead, state);
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

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// Keeps the first leaf that dies as it was.
    #[inline(never)]
    pub(crate) fn keep_dying(&mut self, order: &[(usize, usize)]) {
        let dies = |block: &Block| block.fate == Fate::Dies && block.kind == Kind::DirLeaf;
        let Some(index) = (0..self.txn.count()).find(|index| dies(&self.txn.block(*index))) else {
            return;
        };
        let mut kept = self.spare.dying.take().unwrap_or_else(|| Box::new(Dying::new()));
        let changes = of_block(order, index);
        self.before(index, changes, HEADER, &mut kept.page[HEADER..FIRST]);
        kept.tail = tail(&kept.page).max(FIRST);
        self.before(index, changes, FIRST, &mut kept.page[FIRST..kept.tail]);
        (kept.index, kept.owner) = (Some(index), self.txn.block(index).owner);
        (kept.at, kept.moved) = (FIRST, [0; PLACES]);
        self.spare.dying = Some(kept);
    }

    /// The entry under the cursor of a leaf that is born, if it has moved there; the cursor goes on.
    pub(crate) fn moved(&mut self, block: &Block, page: &Page, cursor: &mut Cursor) -> Option<More> {
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
    pub(crate) fn dying_leaf(&mut self, block: &Block, index: usize) -> bool {
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
        let head = head(&kept.page);
        self.tell_leaf(block, (&head, &Default::default()), found);
        self.spare.dying = Some(kept);
        true
    }
}

#[cfg(test)]
mod tests;
