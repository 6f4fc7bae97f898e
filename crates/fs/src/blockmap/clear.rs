//! Making holes, from the end backwards and a bounded amount at a time; nodes left empty are freed.

use super::{ENTRIES, child_at, direct, entry_at, has_page, node, placed, reach, read_all};
use crate::errors::Step;
use crate::inode::Held;
use keepfs_format::blockmap::{Child, FANOUT, PageEntry, coverage, entry_offset};
use keepfs_format::inode::{BODY, BODY_DIRECT, BODY_NONE, BODY_TREE, DIRECT};
use keepfs_format::oplog::Action;
use keepfs_format::{IntoBytes, MetaId, Space, bitmap};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Meaning, Ref, Txn};
use std::collections::BTreeSet;

/// What one transaction may still do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Page entries.
    pub entries: usize,
    /// Nodes visited.
    pub nodes: usize,
    /// Metablocks of PAGES and SHARES that the pages freed lie in: on an aged pool each page may have its own.
    pub frames: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            entries: 500,
            nodes: 40,
            frames: 128,
        }
    }
}

/// An entry that became a hole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    /// Page of the file.
    pub index: u64,
    /// What its entry was.
    pub entry: PageEntry,
}

/// Pages of a file: first, and first behind.
#[derive(Clone, Copy)]
struct Range {
    from: u64,
    to: u64,
}

/// Makes holes of pages `from .. to` as far as `budget` goes; `freed` gets what was mapped, descending.
/// Returns `true` when nothing is mapped in the range any more. Keeps `pages` of the inode.
pub(crate) fn clear(
    txn: &mut Txn<'_>,
    file: &mut Held,
    from: u64,
    to: u64,
    budget: Budget,
    freed: &mut Vec<Freed>,
) -> Step<bool> {
    let body = file.now.body;
    let done = match body {
        BODY_DIRECT => {
            clear_direct(file, from, to, freed);
            true
        }
        BODY_TREE => clear_tree(txn, file, from, to, budget, freed)?,
        _ => true,
    };
    file.now
        .pages
        .set(file.now.pages.get().saturating_sub(freed.len() as u64));
    if !freed.is_empty() || file.now.body != body {
        let clear = Action::Clear {
            from,
            to,
            freed: freed.len() as u64 - u64::from(planted::has(Logic::ClearToldShort)),
            emptied: u8::from(file.now.body != body),
        };
        txn.op(file.ino, clear)?;
    }
    Ok(done)
}

fn clear_direct(file: &mut Held, from: u64, to: u64, freed: &mut Vec<Freed>) {
    let mut entries = direct(&file.now);
    for index in (from.min(DIRECT)..to.min(DIRECT)).rev() {
        let entry = core::mem::take(&mut entries[index as usize]);
        if !entry.is_hole() {
            freed.push(Freed { index, entry });
        }
    }
    file.now.body_area.copy_from_slice(entries.as_bytes());
    if file.now.body_area == [0; BODY] {
        file.now.body = BODY_NONE;
    }
}

fn clear_tree(
    txn: &mut Txn<'_>,
    file: &mut Held,
    from: u64,
    to: u64,
    budget: Budget,
    freed: &mut Vec<Freed>,
) -> Step<bool> {
    let root = node(file.ino, file.now.root.get())?;
    let range = Range {
        from,
        to: to.min(reach(file.now.height)),
    };
    if range.from >= range.to {
        return Ok(true);
    }
    let mut pass = Pass {
        range,
        budget,
        frames: BTreeSet::new(),
        freed,
    };
    let outcome = pass.node(txn, root, file.now.height, 0)?;
    if outcome.empty {
        if file.now.height == 1 || !planted::has(Logic::RootKept) {
            txn.free_node(root)?;
        }
        file.now.body = BODY_NONE;
        file.now.body_area = [0; BODY];
        file.now.height = 0;
        file.now.root.set(0);
    }
    Ok(outcome.done)
}

/// What became of a node.
struct Outcome {
    /// Nothing is mapped in the range below it.
    done: bool,
    /// It has no entry left at all.
    empty: bool,
}

struct Pass<'a> {
    range: Range,
    budget: Budget,
    /// Metablocks that freeing what was found will touch.
    frames: BTreeSet<MetaId>,
    freed: &'a mut Vec<Freed>,
}

impl Pass<'_> {
    /// Whether the budget allows one more entry to go.
    fn affords(&mut self, entry: &PageEntry) -> bool {
        if self.budget.entries == 0 {
            return false;
        }
        if has_page(entry) {
            let page = entry.page();
            let touched = [bitmap::share(page).0, bitmap::bit(Space::Pages, page).0];
            let more = touched.iter().filter(|id| !self.frames.contains(id)).count();
            if self.frames.len() + more > self.budget.frames {
                return false;
            }
            self.frames.extend(touched);
        }
        self.budget.entries -= 1;
        true
    }

    /// The slots of a node of `level` at page `base` that the range touches.
    fn slots(&self, level: u8, base: u64) -> core::ops::Range<usize> {
        let each = coverage(level);
        let first = self.range.from.saturating_sub(base) / each;
        let behind = self.range.to.saturating_sub(base).div_ceil(each).min(FANOUT);
        first as usize..behind as usize
    }

    fn node(&mut self, txn: &mut Txn<'_>, r: Ref, level: u8, base: u64) -> Step<Outcome> {
        if self.budget.nodes == 0 {
            return Ok(Outcome {
                done: false,
                empty: false,
            });
        }
        self.budget.nodes -= 1;
        placed(txn, r, level)?;
        let bytes = read_all(txn, r)?;
        if level <= 1 {
            self.entries(txn, r, base, &bytes)
        } else {
            self.children(txn, r, level, base, bytes)
        }
    }

    fn entries(&mut self, txn: &mut Txn<'_>, r: Ref, base: u64, old: &[u8; ENTRIES]) -> Step<Outcome> {
        let mut new = *old;
        let mut done = true;
        for slot in self.slots(1, base).rev() {
            let entry = entry_at(old, slot);
            if entry.is_hole() {
                continue;
            }
            if !self.affords(&entry) {
                done = false;
                break;
            }
            self.freed.push(Freed {
                index: base + slot as u64,
                entry,
            });
            new[slot * 16..slot * 16 + 16].fill(0);
        }
        let empty = new.iter().all(|b| *b == 0);
        if !empty && new != *old {
            txn.put_diff(r, entry_offset(0), old, &new, Meaning::MapEntry)?;
        }
        Ok(Outcome { done, empty })
    }

    fn children(&mut self, txn: &mut Txn<'_>, r: Ref, level: u8, base: u64, mut bytes: [u8; ENTRIES]) -> Step<Outcome> {
        let mut done = true;
        for slot in self.slots(level, base).rev() {
            let id = child_at(&bytes, slot);
            if id == 0 {
                continue;
            }
            let below = node(r.owner, id)?;
            let outcome = self.node(txn, below, level - 1, base + slot as u64 * coverage(level))?;
            if outcome.empty {
                txn.free_node(below)?;
                bytes[slot * 16..slot * 16 + 16].fill(0);
                let hole = Child::default();
                txn.put(r, entry_offset(slot as u64), hole.as_bytes(), Meaning::MapNode)?;
            }
            if !outcome.done {
                done = false;
                break;
            }
        }
        Ok(Outcome {
            done,
            empty: bytes.iter().all(|b| *b == 0),
        })
    }
}
