//! Rules of one structure alone: ranges, kinds, owners (S-17.7). What the offline walk asks of the same structure is asked
//! here of what a transaction makes of it.

use crate::equation::Equation;
use crate::input::{Block, Fate, Transaction};
use crate::sink::Sink;
use crate::walk::Walk;
use core::ops::Range;
use keepfs_format::blockmap::{Child, HEIGHT_MAX, PageEntry};
use keepfs_format::dir::{DEPTH_MAX, EntryHead, FIRST, LEVEL_MAX, LeafHead};
use keepfs_format::inode::{BODY_TREE, DEAD, Inode, LIVE};
use keepfs_format::metablock::HEADER;
use keepfs_format::rules::{self, in_life, is_zero};
use keepfs_format::xattr::{ChainHead, PAYLOAD};
use keepfs_format::{FromBytes, Header, Kind, MetaId, PAGE, Space};

/// Inode numbers, and numbers on the hidden list, are below (S-8.5).
const NUMBERS_END: u64 = 1 << 40;
/// Bytes of the head of a chain's metablock.
pub(crate) const CHAIN_HEAD: Range<usize> = HEADER..HEADER + size_of::<ChainHead>();

/// The first field of an inode that sections 1 and 5 do not allow.
fn wrong_inode(inode: &Inode) -> Option<&'static str> {
    match inode.state.get() {
        LIVE => {}
        0 | DEAD => return None,
        _ => return Some("state"),
    }
    let kind = (inode.mode.get() >> 12).min(0xff) as u8;
    let broken = rules::inode(inode, kind);
    if !broken.is_none() {
        return broken.fields().next();
    }
    match inode.body {
        BODY_TREE => rules::wrong_hole(inode, kind),
        _ => None,
    }
}

/// The first field of a leaf's head that S-6.1 does not allow.
fn wrong_leaf(head: &LeafHead) -> Option<&'static str> {
    match (FIRST..=PAGE).contains(&usize::from(head.tail.get())) {
        false => Some("tail"),
        true => (head.reserved.get() != 0).then_some("reserved field of the leaf"),
    }
}

/// The first field of the head of a chain's metablock that S-7.4 does not allow.
fn wrong_chain(head: &ChainHead) -> Option<&'static str> {
    let next = MetaId(head.next.get());
    let rules = [
        (next.0 == 0 || next.space() == Some(Space::Nodes), "next"),
        (usize::from(head.used.get()) <= PAYLOAD, "used"),
        (is_zero(&head.reserved), "reserved field of the chain"),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// An inode that changed. What was wrong before is not this transaction's.
    pub(crate) fn inode_fields(&mut self, ino: u64, before: &Inode, after: &Inode) {
        if !self.sink.wants(Equation::InodeFields) {
            return;
        }
        let mut wrong = wrong_inode(after).filter(|field| wrong_inode(before) != Some(field));
        let both_live = before.state.get() == LIVE && after.state.get() == LIVE;
        if both_live && before.mode.get() >> 12 != after.mode.get() >> 12 {
            wrong = wrong.or(Some("type, which changed"));
        }
        if let Some(field) = wrong {
            self.sink.breach(Equation::InodeFields, ino, 0, field);
        }
    }

    /// What is wrong with an entry of directory `ino` that is new in its leaf.
    pub(crate) fn wrong_entry(
        &mut self,
        ino: u64,
        head: &EntryHead,
        name: &[u8],
        padding: &[u8],
    ) -> Option<&'static str> {
        if !self.sink.wants(Equation::EntryFields) {
            return None;
        }
        let wrong = rules::wrong_entry(head, name, padding);
        let (born, cur) = self.life_of(ino);
        wrong.or_else(|| {
            let is_in_life = in_life(head.version.get(), born, cur);
            (!is_in_life).then_some("version of the entry")
        })
    }

    /// A page entry of `owner` that is new and no hole.
    pub(crate) fn page_entry_fields(&mut self, owner: u64, entry: &PageEntry) {
        if !self.sink.wants(Equation::MapFields) {
            return;
        }
        let life = self.life_of(owner);
        if let Some(field) = rules::wrong_page_entry(entry, life) {
            self.sink.breach(Equation::MapFields, owner, entry.page(), field);
        }
    }

    /// A new child entry of a node of `owner`.
    pub(crate) fn child_fields(&mut self, owner: u64, child: &Child) {
        let id = MetaId(child.id.get());
        let is_right = child.reserved.get() == 0 && id.space() == Some(Space::Nodes);
        if !is_right && *child != Child::default() {
            self.sink.breach(Equation::MapFields, owner, id.0, "child entry");
        }
    }

    /// The head of a leaf before and after.
    pub(crate) fn leaf_fields(&mut self, block: &Block, before: &LeafHead, after: &LeafHead) {
        if block.fate == Fate::Dies {
            return;
        }
        if let Some(field) = wrong_leaf(after).filter(|field| wrong_leaf(before) != Some(field)) {
            self.sink.breach(Equation::NodeFields, block.id.0, 0, field);
        }
    }

    /// A slot of a directory index before and after. One that becomes 0 belongs to a directory that is being freed (S-6.4);
    /// of another one its entries would be missed (E-19).
    pub(crate) fn slot_fields(&mut self, block: &Block, slot: u64, was: u64, is: u64) {
        let is_freed = is == 0 && block.fate == Fate::Stays;
        let is_node = MetaId(is).space() == Some(Space::Nodes);
        if !is_node && !is_freed && block.fate != Fate::Dies && (was != is || block.fate == Fate::Born) {
            self.sink.breach(Equation::NodeFields, block.id.0, slot, "slot");
        }
    }

    /// The head of a metablock of an attribute chain before and after.
    pub(crate) fn chain_fields(&mut self, block: &Block, before: &[u8], after: &[u8]) {
        let wrong = |bytes: &[u8]| ChainHead::read_from_bytes(bytes).ok().as_ref().and_then(wrong_chain);
        if block.fate == Fate::Dies {
            return;
        }
        if let Some(field) = wrong(after).filter(|field| wrong(before) != Some(field)) {
            self.sink.breach(Equation::NodeFields, block.id.0, 0, field);
        }
    }

    /// S-3.2: the level of a node that is born.
    pub(crate) fn level(&mut self, block: &Block, index: usize) {
        if block.fate != Fate::Born {
            return;
        }
        let level = self.txn.bytes(index)(core::mem::offset_of!(Header, level));
        let allowed = match block.kind {
            Kind::DirLeaf => 0..=DEPTH_MAX,
            Kind::DirIndex => 0..=LEVEL_MAX,
            Kind::BlockMap => 1..=HEIGHT_MAX,
            _ => 0..=u8::MAX,
        };
        if !allowed.contains(&level) {
            self.sink
                .breach(Equation::NodeFields, block.id.0, u64::from(level), "level");
        }
    }

    /// Bits of a bitmap that were set or cleared, or counts of SHARES that changed: `len` numbers from `start` on. Only who
    /// makes a pool sets bits of fixed pages.
    pub(crate) fn numbers(&mut self, space: Space, start: u64, len: u64, set: bool) {
        if !self.sink.wants(Equation::Numbers) {
            return;
        }
        let end = start.saturating_add(len);
        let wrong = match space {
            Space::Pages => self.geometry.wrong(start, end, set && self.is_own),
            Space::Shares => self.geometry.wrong(start, end, false),
            Space::InodeNumbers | Space::Orphans if start == 0 => Some("inode number 0"),
            Space::InodeNumbers | Space::Orphans if end > NUMBERS_END => Some("inode number beyond 2^40"),
            _ => None,
        };
        if let Some(field) = wrong {
            self.sink.breach(Equation::Numbers, start, len, field);
        }
    }

    /// born and cur of an inode as it is now; any version lies in them if the transaction did not touch it.
    fn life_of(&mut self, ino: u64) -> (u64, u64) {
        let (known, life) = self.life;
        if known == ino {
            return life;
        }
        let any = (0, u64::MAX);
        let life = self.inode_now(ino, |i| (i.born.get(), i.cur.get())).unwrap_or(any);
        self.life = (ino, life);
        life
    }
}

#[cfg(test)]
mod tests;
