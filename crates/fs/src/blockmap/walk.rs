//! Finding the next mapped page, or hole, skipping unmapped subtrees; counting entries. A node stands in one place, and a walk
//! comes to it once (S-7.7): a map that leads there again is damaged, so no walk is longer than the pool has nodes.

use super::{check, child_at, direct, entry_at, node, placed, reach, read_all};
use crate::errors::{Step, damaged};
use crate::inode::pending_hole;
use keepfs_format::MetaId;
use keepfs_format::blockmap::{FANOUT, PageEntry, coverage};
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, DIRECT, Inode};
use keepfs_store::{Birth, Ref, Source};
use std::collections::HashSet;

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

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// This page is as wanted.
    At(u64),
    /// None is.
    Nowhere,
    /// None before this page is; it has looked at as many nodes as it may at a time.
    Later(u64),
}

/// Nodes that are looked at before a search stops to let others in (S-20.12).
const NODES_AT_A_TIME: u32 = 1024;
/// Nodes that are passed before they are noted: a map that leads to nodes twice leads to later ones twice, too.
const PASSED_UNNOTED: u32 = 64;

/// Nodes that one walk, forwards, went through from the first entry to the last.
#[derive(Default)]
pub(crate) struct Passed {
    count: u32,
    noted: HashSet<(MetaId, u32)>,
}

impl Passed {
    /// Errors: the walk has been there, in this life of the node.
    pub fn add(&mut self, r: Ref, birth: Birth) -> Step<()> {
        self.count = self.count.saturating_add(1);
        match self.count <= PASSED_UNNOTED || self.noted.insert((r.id, birth.generation)) {
            true => Ok(()),
            false => Err(damaged(r.owner, "a node stands in two places (S-6.7, S-7.7)")),
        }
    }
}

/// The first page from `from` on, below `to`, that is as wanted; a pending hole counts as a hole (S-5.8). `passed` is what the
/// searches before it in the same walk, for the same and further back, passed.
pub(crate) fn next(
    source: &mut impl Source,
    ino: u64,
    inode: &Inode,
    (from, to): (u64, u64),
    want: Want,
    passed: &mut Passed,
) -> Step<Next> {
    let mut look = |from, to| next_entry(source, ino, inode, (from, to), want, passed);
    let hole = pending_hole(inode);
    if hole.is_empty() {
        return look(from, to);
    }
    let before = look(from, to.min(hole.start))?;
    if before != Next::Nowhere {
        return Ok(before);
    }
    let inside = from.max(hole.start);
    if want == Want::Hole && inside < to.min(hole.end) {
        return Ok(Next::At(inside));
    }
    look(from.max(hole.end), to)
}

/// As [`next`], to its end without letting others in.
pub(crate) fn next_at_once(
    source: &mut impl Source,
    ino: u64,
    inode: &Inode,
    (mut from, to): (u64, u64),
    want: Want,
    passed: &mut Passed,
) -> Step<Option<u64>> {
    loop {
        match next(source, ino, inode, (from, to), want, passed)? {
            Next::At(index) => return Ok(Some(index)),
            Next::Nowhere => return Ok(None),
            Next::Later(index) => from = index,
        }
    }
}

/// How many entries pages `from .. to` of a tree have, those in a pending hole too.
pub(crate) fn count(source: &mut impl Source, ino: u64, inode: &Inode, from: u64, to: u64) -> Step<u64> {
    let mut count = Count {
        from,
        to: to.min(reach(inode.height)),
        found: 0,
        passed: Passed::default(),
    };
    if inode.body == BODY_TREE {
        count.node(source, node(ino, inode.root.get())?, inode.height, 0)?;
    }
    Ok(count.found)
}

/// As [`next`], by the entries alone.
fn next_entry(
    source: &mut impl Source,
    ino: u64,
    inode: &Inode,
    (from, to): (u64, u64),
    want: Want,
    passed: &mut Passed,
) -> Step<Next> {
    if from >= to {
        return Ok(Next::Nowhere);
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
                from,
                to: to.min(reach(inode.height)),
                want,
                left: NODES_AT_A_TIME,
                passed,
            };
            let root = node(ino, inode.root.get())?;
            match search.node(source, root, inode.height, 0)? {
                Some(Next::At(index)) => Some(index),
                Some(later) => return Ok(later),
                None => unmapped.then_some(from.max(reach(inode.height))),
            }
        }
        _ => unmapped.then_some(from),
    };
    Ok(found.filter(|index| *index < to).map_or(Next::Nowhere, Next::At))
}

struct Search<'a> {
    from: u64,
    to: u64,
    want: Want,
    /// Nodes that may still be looked at; more than a tree is high, so that each search gets on.
    left: u32,
    passed: &'a mut Passed,
}

impl Search<'_> {
    fn node(&mut self, source: &mut impl Source, r: Ref, level: u8, base: u64) -> Step<Option<Next>> {
        if self.left == 0 {
            return Ok(Some(Next::Later(base.max(self.from))));
        }
        self.left -= 1;
        let birth = placed(source, r, level)?;
        let bytes = read_all(source, r)?;
        let each = coverage(level);
        for slot in self.from.saturating_sub(base) / each..FANOUT {
            let start = base.saturating_add(slot.saturating_mul(each));
            if start >= self.to {
                return Ok(None);
            }
            if level <= 1 {
                let entry = entry_at(&bytes, slot as usize);
                check(r.owner, &entry)?;
                if self.want.is(&entry) {
                    return Ok(Some(Next::At(start)));
                }
                continue;
            }
            let id = child_at(&bytes, slot as usize);
            if id == 0 {
                if self.want.is(&PageEntry::HOLE) {
                    return Ok(Some(Next::At(start.max(self.from))));
                }
                continue;
            }
            let below = node(r.owner, id)?;
            if let Some(found) = self.node(source, below, level - 1, start)? {
                return Ok(Some(found));
            }
        }
        // One that the search began in may have been passed up to there by the one before it.
        if self.from <= base {
            self.passed.add(r, birth)?;
        }
        Ok(None)
    }
}

struct Count {
    from: u64,
    to: u64,
    found: u64,
    passed: Passed,
}

impl Count {
    fn node(&mut self, source: &mut impl Source, r: Ref, level: u8, base: u64) -> Step<()> {
        let birth = placed(source, r, level)?;
        self.passed.add(r, birth)?;
        let bytes = read_all(source, r)?;
        let each = coverage(level);
        for slot in self.from.saturating_sub(base) / each..FANOUT {
            let start = base.saturating_add(slot.saturating_mul(each));
            if start >= self.to {
                break;
            }
            if level <= 1 {
                self.found += u64::from(!entry_at(&bytes, slot as usize).is_hole());
                continue;
            }
            let id = child_at(&bytes, slot as usize);
            if id != 0 {
                self.node(source, node(r.owner, id)?, level - 1, start)?;
            }
        }
        Ok(())
    }
}
