//! Changes of inodes (SPEC section 5).

use crate::equation::Equation;
use crate::input::{Block, Transaction};
use crate::sink::Sink;
use crate::walk::{Carried, Changed, Walk};
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{self, BODY_DIRECT, BODY_NONE, BODY_TREE, DIR, DIRECT, FILE, Inode, LIVE};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, IntoBytes, MetaId, Space, bitmap};

/// Number of the root directory, which has no name (S-5.1).
const ROOT: u64 = 1;

/// What an inode is.
pub(crate) fn kind(inode: &Inode) -> u8 {
    (inode.mode.get() >> 12) as u8
}

fn is_live(inode: &Inode) -> bool {
    inode.state.get() == LIVE
}

fn is_named_directory(inode: &Inode) -> bool {
    is_live(inode) && kind(inode) == DIR && inode.nlink.get() > 0
}

/// Directory entries that an inode says to have (S-5.6).
fn names(inode: &Inode) -> i64 {
    match (is_live(inode), kind(inode)) {
        (false, _) => 0,
        (true, DIR) => i64::from(inode.nlink.get() > 0),
        (true, _) => i64::from(inode.nlink.get()),
    }
}

/// Subdirectories that an inode says to have (S-5.6).
fn subdirectories(inode: &Inode) -> i64 {
    match is_named_directory(inode) {
        true => i64::from(inode.nlink.get()) - 2,
        false => 0,
    }
}

/// LIVE without a name (S-5.6).
fn is_hidden(inode: &Inode) -> bool {
    is_live(inode) && inode.nlink.get() == 0
}

fn parent(ino: u64, inode: &Inode) -> Option<u64> {
    (is_named_directory(inode) && ino != ROOT).then_some(inode.parent.get())
}

fn direct(inode: &Inode) -> [PageEntry; DIRECT as usize] {
    match is_live(inode) && inode.body == BODY_DIRECT {
        true => <[PageEntry; DIRECT as usize]>::read_from_bytes(&inode.body_area).unwrap_or_default(),
        false => Default::default(),
    }
}

fn live_or<V: Default>(inode: &Inode, value: impl Fn(&Inode) -> V) -> V {
    match is_live(inode) {
        true => value(inode),
        false => V::default(),
    }
}

/// Whether an inode with names may be on the hidden list, or just have left it: a file whose pages are being freed
/// (S-5.6). The last of them leaves a body of pages, or none, or of an empty file.
fn may_be_cut(inode: &Inode) -> bool {
    let has_pages = matches!(inode.body, BODY_NONE | BODY_DIRECT | BODY_TREE) || inode.size.get() == 0;
    inode.state.get() == LIVE && kind(inode) == FILE && inode.nlink.get() > 0 && has_pages
}

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// An INODES metablock: every slot that changed.
    pub(crate) fn inodes(&mut self, block: &Block, changes: &[(usize, usize)]) {
        let Some((index, _)) = changes.first() else { return };
        let mut slots = 0_u32;
        for change in changes.iter().filter_map(|(_, at)| self.txn.changes().get(*at)) {
            let slot = |offset: usize| offset.saturating_sub(HEADER) / inode::SIZE;
            (slot(change.offset)..=slot(change.offset + change.new.len() - 1)).for_each(|s| slots |= 1 << s);
        }
        slots &= (1 << inode::PER_BLOCK) - 1;
        while slots != 0 {
            let start = HEADER + slots.trailing_zeros() as usize * inode::SIZE;
            slots &= slots - 1;
            // The list is not asked while it is away: what is asked is the inode itself.
            let mut list = core::mem::take(&mut self.spare.inodes);
            if let Some(changed) = list.more() {
                changed.ino = inode::at(block.id, start);
                let images = (changed.before.as_mut_bytes(), changed.after.as_mut_bytes());
                self.images((*index, changes), start, images);
                let Changed { ino, before, after } = &*changed;
                // Entries of its body are of its life.
                self.life = (*ino, (after.born.get(), after.cur.get()));
                self.inode(*ino, before, after);
            }
            self.spare.inodes = list;
        }
    }

    fn inode(&mut self, ino: u64, before: &Inode, after: &Inode) {
        let more = i64::from(is_live(after)) - i64::from(is_live(before));
        if more != 0 {
            self.sink.run(Equation::InodeStates, ino, 1, more);
        }
        self.is_hidden_moved |= is_hidden(before) != is_hidden(after);
        self.life(ino, before, after);
        self.inode_fields(ino, before, after);
        let same_life = before.state == after.state;
        let delta = |of: fn(&Inode) -> i64| of(after).wrapping_sub(of(before));
        if !same_life || before.pages != after.pages {
            let pages = delta(|i| live_or(i, |i| i.pages.get() as i64));
            self.sink.pair(Equation::InodePages, ino, 0, pages);
        }
        if !same_life || before.entries != after.entries {
            let entries = delta(|i| live_or(i, |i| i.entries.get() as i64));
            self.sink.pair(Equation::DirEntries, ino, 0, entries);
        }
        let same_names = before.mode == after.mode && before.nlink == after.nlink && before.parent == after.parent;
        if !same_life || !same_names {
            self.named(ino, before, after);
        }
        if !same_life || before.root != after.root || before.xattrs != after.xattrs {
            for node in [|i: &Inode| i.root.get(), |i: &Inode| i.xattrs.get()] {
                self.reference(live_or(before, node), live_or(after, node));
            }
        }
        self.body(ino, before, after);
    }

    /// What an inode says of its names, and where it is.
    fn named(&mut self, ino: u64, before: &Inode, after: &Inode) {
        let delta = |of: fn(&Inode) -> i64| of(after).wrapping_sub(of(before));
        if ino != ROOT {
            self.sink.pair(Equation::Links, ino, 0, delta(names));
        }
        self.sink.pair(Equation::Subdirectories, ino, 0, delta(subdirectories));
        let (was, is) = (parent(ino, before), parent(ino, after));
        if was != is {
            was.into_iter()
                .for_each(|p| self.sink.pair(Equation::Parents, ino, p, -1));
            is.into_iter()
                .for_each(|p| self.sink.pair(Equation::Parents, ino, p, 1));
        }
    }

    /// S-5.5: births, ends, versions.
    fn life(&mut self, ino: u64, before: &Inode, after: &Inode) {
        let (was, is) = (before.cur.get(), after.cur.get());
        let versions = match (is_live(before), is_live(after)) {
            (false, true) => {
                let born = after.born.get();
                self.sink.pair(Equation::LivesTold, ino, born, 1);
                self.equal(Equation::Generations, ino, born, was.wrapping_add(1));
                is.wrapping_sub(born)
            }
            (true, true) => {
                self.equal(Equation::Generations, ino, before.born.get(), after.born.get());
                self.equal(Equation::Generations, ino, is, is.max(was));
                is.wrapping_sub(was)
            }
            _ => {
                self.equal(Equation::Generations, ino, is, was);
                0
            }
        };
        if self.txn.operations().is_some() {
            self.sink.pair(Equation::Versions, ino, 0, versions as i64);
        }
    }

    /// A reference to a node became another one; 0 is none.
    pub(crate) fn reference(&mut self, was: u64, is: u64) {
        if was == is {
            return;
        }
        for (id, times) in [(was, -1), (is, 1)] {
            if id != 0 {
                self.sink.run(Equation::NodeReferences, MetaId(id).index(), 1, times);
            }
        }
    }

    /// Page entries of the body area. Those that a body of four entries hands over to a tree are looked for there.
    fn body(&mut self, ino: u64, before: &Inode, after: &Inode) {
        let has_entries = |inode: &Inode| is_live(inode) && inode.body == BODY_DIRECT;
        let (had, has) = (has_entries(before), has_entries(after));
        if !(had || has) || (had && has && before.body_area == after.body_area) {
            return;
        }
        let raised = is_live(before) && before.body == BODY_DIRECT && is_live(after) && after.body == BODY_TREE;
        for (slot, (was, is)) in (0..).zip(direct(before).into_iter().zip(direct(after))) {
            if raised && !was.is_hole() {
                self.spare.carried.push(Carried { ino, slot, entry: was });
            } else {
                let more = self.entry(ino, &was, &is);
                self.count_entries(ino, more);
            }
        }
    }

    /// What was looked for in trees and not found was lost.
    pub(crate) fn carried_nowhere(&mut self) {
        while let Some(carried) = self.spare.carried.pop() {
            let more = self.entry(carried.ino, &carried.entry, &PageEntry::HOLE);
            self.count_entries(carried.ino, more);
        }
    }

    /// S-5.6: the hidden list. A bit that changes for an inode that is not without names belongs to a cut or a hole.
    pub(crate) fn hidden(&mut self) {
        if !self.is_hidden_moved && self.spare.orphans.is_empty() {
            return;
        }
        let mut flips = core::mem::take(&mut self.spare.orphans);
        let inodes = core::mem::take(&mut self.spare.inodes);
        let changed = inodes.all();
        let moved = |c: &&Changed| is_hidden(&c.before) != is_hidden(&c.after);
        for Changed { ino, after, .. } in changed.iter().filter(moved) {
            let flip = flips.iter().find(|(number, _)| number == ino).map(|(_, on)| *on);
            match is_hidden(after) {
                true => {
                    let listed = flip.unwrap_or_else(|| self.was_listed(*ino));
                    self.equal(Equation::Hidden, *ino, 1, u64::from(listed));
                }
                false => self.equal(Equation::Unhidden, *ino, 1, u64::from(flip == Some(false))),
            }
        }
        let is_moved = |ino: u64| changed.iter().filter(moved).any(|c| c.ino == ino);
        flips.retain(|(ino, _)| !is_moved(*ino));
        self.spare.inodes = inodes;
        for (ino, on) in flips.drain(..) {
            if !self.inode_now(ino, may_be_cut).unwrap_or(false) {
                let equation = if on { Equation::Hidden } else { Equation::Unhidden };
                self.sink.pair(equation, ino, 0, -1);
            }
        }
        self.spare.orphans = flips;
    }

    /// Whether ORPHANS has an inode whose bit the transaction did not change. The bit belongs to who may change the inode.
    fn was_listed(&self, ino: u64) -> bool {
        let (id, offset, mask): (MetaId, usize, u8) = bitmap::bit(Space::Orphans, ino);
        let Some(block) = self.find(id) else { return false };
        self.txn.bytes(block)(offset) & mask != 0
    }
}
