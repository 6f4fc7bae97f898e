//! A directory's nodes from its entries (S-6.1 to S-6.5).

use super::Mender;
use crate::Page;
use keepfs_format::dir::{
    CHILDREN, ENTRY_HEAD, EntryHead, FIRST, LEVEL_MAX, LIVE, LeafHead, TWINS, child_offset, entry_size, name_key,
    slot_of,
};
use keepfs_format::metablock::HEADER;
use keepfs_format::{IntoBytes, Kind, MetaId, PAGE};
use std::collections::BTreeMap;

/// A name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub name: Vec<u8>,
    pub ino: u64,
    pub kind: u8,
}

/// A name with its key.
struct Keyed<'n> {
    key: u64,
    name: &'n Name,
}

/// Bytes that entries may take in a leaf.
const ROOM: usize = PAGE - FIRST;

fn bytes_of(entries: &[Keyed<'_>]) -> usize {
    entries.iter().map(|entry| entry_size(entry.name.name.len())).sum()
}

impl Mender<'_> {
    /// New nodes for directory `ino` with these names; its root node, 0 if there are none. `version` is the directory's.
    pub(super) fn directory_tree(&mut self, ino: u64, names: &[Name], version: u32) -> u64 {
        let seed = self.walk.pool.sb.name_seed.map(|word| word.get());
        let mut twins: BTreeMap<u64, u64> = BTreeMap::new();
        let mut entries: Vec<Keyed<'_>> = Vec::new();
        for name in names {
            let base = name_key(seed, &name.name);
            let n = twins.entry(base).or_default();
            if *n < TWINS {
                entries.push(Keyed { key: base + *n, name });
            }
            *n += 1;
        }
        entries.sort_by_key(|entry| entry.key);
        match entries.is_empty() {
            true => 0,
            false => self.part(ino, &entries, 0, version).0,
        }
    }

    /// The node that stands in one slot of an index of the level before `level`, or is the root.
    fn part(&mut self, ino: u64, entries: &[Keyed<'_>], level: u8, version: u32) -> MetaId {
        if bytes_of(entries) <= ROOM || level > LEVEL_MAX {
            return self.leaf(ino, entries, if level == 0 { 0 } else { 8 }, version);
        }
        let (id, mut bytes) = self.new_node(Kind::DirIndex, level, ino);
        self.slots(ino, entries, (level, 0, 0), &mut bytes, version);
        self.pool().replace(id, *bytes);
        id
    }

    /// Fills the slots of an index from `first` on that share `depth` bits: with one leaf if all entries go into it.
    fn slots(&mut self, ino: u64, entries: &[Keyed<'_>], at: (u8, usize, u8), bytes: &mut Page, version: u32) {
        let (level, first, depth) = at;
        let count = CHILDREN >> depth;
        if bytes_of(entries) <= ROOM {
            let id = self.leaf(ino, entries, depth, version);
            for slot in first..first + count {
                bytes[child_offset(slot)..][..8].copy_from_slice(&id.0.to_le_bytes());
            }
        } else if depth == 8 {
            let id = self.part(ino, entries, level + 1, version);
            bytes[child_offset(first)..][..8].copy_from_slice(&id.0.to_le_bytes());
        } else {
            let middle = first + count / 2;
            let split = entries.partition_point(|entry| slot_of(entry.key, level) < middle);
            let (low, high) = entries.split_at(split);
            self.slots(ino, low, (level, first, depth + 1), bytes, version);
            self.slots(ino, high, (level, middle, depth + 1), bytes, version);
        }
    }

    fn leaf(&mut self, ino: u64, entries: &[Keyed<'_>], depth: u8, version: u32) -> MetaId {
        let (id, mut bytes) = self.new_node(Kind::DirLeaf, depth, ino);
        let (mut at, mut live) = (FIRST, 0u16);
        for Keyed { key, name } in entries {
            // More names that share all bits of their keys than a leaf holds: nobody makes that but on purpose.
            if at + entry_size(name.name.len()) > PAGE {
                break;
            }
            live += 1;
            let head = EntryHead {
                key: (*key).into(),
                ino: name.ino.into(),
                version: version.into(),
                kind: name.kind,
                name_len: name.name.len() as u8,
                state: LIVE,
                reserved: 0,
            };
            bytes[at..at + ENTRY_HEAD].copy_from_slice(head.as_bytes());
            bytes[at + ENTRY_HEAD..][..name.name.len()].copy_from_slice(&name.name);
            at += entry_size(name.name.len());
        }
        let head = LeafHead {
            tail: (at as u16).into(),
            live: live.into(),
            dead: 0.into(),
            reserved: 0.into(),
        };
        bytes[HEADER..FIRST].copy_from_slice(head.as_bytes());
        self.pool().replace(id, *bytes);
        id
    }
}
