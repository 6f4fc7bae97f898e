//! Finding the next mapped page, or hole, skipping unmapped subtrees.

use super::{check, child_at, direct, entry_at, node, reach, read_all};
use crate::errors::{Step, damaged};
use crate::inode::pending_hole;
use keepfs_format::blockmap::{FANOUT, PageEntry, coverage};
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, DIRECT, Inode};
use keepfs_store::{Ref, Source};

/// What is looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    /// A page without an entry.
    Hole,
    /// A page with an entry, whatever it says.
    Entry,
}

impl Want {
    fn is(self, entry: &PageEntry) -> bool {
        match self {
            Want::Hole => entry.is_hole(),
            Want::Entry => !entry.is_hole(),
        }
    }
}

/// The first page from `from` on, below `to`, that is as wanted; a pending hole counts as a hole (S-5.8). `visits`
/// bounds the nodes read: no more can exist than the pool has pages, so a map that needs more is damaged.
pub(crate) fn next(
    source: &mut impl Source,
    ino: u64,
    inode: &Inode,
    from: u64,
    to: u64,
    want: Want,
    visits: u64,
) -> Step<Option<u64>> {
    let hole = pending_hole(inode);
    if hole.is_empty() {
        return next_entry(source, ino, inode, from, to, want, visits);
    }
    let before = next_entry(source, ino, inode, from, to.min(hole.start), want, visits)?;
    if before.is_some() {
        return Ok(before);
    }
    let inside = from.max(hole.start);
    if want == Want::Hole && inside < to.min(hole.end) {
        return Ok(Some(inside));
    }
    next_entry(source, ino, inode, from.max(hole.end), to, want, visits)
}

/// How many entries pages `from .. to` have, those in a pending hole too.
pub(crate) fn count(source: &mut impl Source, ino: u64, inode: &Inode, from: u64, to: u64, visits: u64) -> Step<u64> {
    let (mut at, mut count) = (from, 0);
    while let Some(entry) = next_entry(source, ino, inode, at, to, Want::Entry, visits)? {
        at = next_entry(source, ino, inode, entry, to, Want::Hole, visits)?.unwrap_or(to);
        count += at - entry;
    }
    Ok(count)
}

/// As [`next`], by the entries alone.
fn next_entry(
    source: &mut impl Source,
    ino: u64,
    inode: &Inode,
    from: u64,
    to: u64,
    want: Want,
    visits: u64,
) -> Step<Option<u64>> {
    if from >= to {
        return Ok(None);
    }
    let unmapped = want.is(&PageEntry::HOLE);
    let found = match inode.body {
        BODY_DIRECT => {
            let entries = direct(inode);
            let mut mapped = (from.min(DIRECT)..DIRECT).zip(&entries[from.min(DIRECT) as usize..]);
            mapped
                .find(|(_, e)| want.is(e))
                .map(|(i, _)| i)
                .or(unmapped.then_some(from.max(DIRECT)))
        }
        BODY_TREE => {
            let mut search = Search {
                ino,
                from,
                to: to.min(reach(inode.height)),
                want,
                visits,
            };
            let root = node(ino, inode.root.get())?;
            let found = search.node(source, root, inode.height, 0)?;
            found.or(unmapped.then_some(from.max(reach(inode.height))))
        }
        _ => unmapped.then_some(from),
    };
    Ok(found.filter(|index| *index < to))
}

struct Search {
    ino: u64,
    from: u64,
    to: u64,
    want: Want,
    visits: u64,
}

impl Search {
    fn node(&mut self, source: &mut impl Source, r: Ref, level: u8, base: u64) -> Step<Option<u64>> {
        if self.visits == 0 {
            return Err(damaged(
                self.ino,
                "block map has more nodes than the pool has pages (S-7.1)",
            ));
        }
        self.visits -= 1;
        let bytes = read_all(source, r)?;
        let each = coverage(level);
        for slot in self.from.saturating_sub(base) / each..FANOUT {
            let start = base.saturating_add(slot.saturating_mul(each));
            if start >= self.to {
                break;
            }
            if level <= 1 {
                let entry = entry_at(&bytes, slot as usize);
                check(self.ino, &entry)?;
                if self.want.is(&entry) {
                    return Ok(Some(start));
                }
                continue;
            }
            let id = child_at(&bytes, slot as usize);
            if id == 0 {
                if self.want.is(&PageEntry::HOLE) {
                    return Ok(Some(start.max(self.from)));
                }
                continue;
            }
            let below = node(self.ino, id)?;
            if let Some(found) = self.node(source, below, level - 1, start)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
