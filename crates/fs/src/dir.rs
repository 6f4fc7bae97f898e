//! Directories: an extendible hash of leaves under indexes (SPEC section 6).
//!
//! Invariants: (1) every entry lies in the leaf its key leads to; (2) a leaf of local depth d stands in exactly the
//! 2^(8−d) neighbouring slots that share d bits; (3) keys of live entries are distinct, so a key is a stable cookie.
//! All functions run under the directory's inode lock: shared to read, exclusive to change.

mod drain;
mod insert;
mod leaf;
mod list;
mod search;

pub(crate) use drain::drain;
pub(crate) use insert::insert;
pub(crate) use list::{Listing, list};

use crate::errors::{Step, damaged};
use crate::inode::Held;
use keepfs_format::dir::{CHILDREN, DEAD, EntryHead, FIRST, LEVEL_MAX, LeafHead, child_offset, name_key, slot_of};
use keepfs_format::{IntoBytes, Kind, MetaId, Space};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Meaning, Ref, Source, Stamp, Txn};
use keepfs_vfs::FileKind;

/// Offset of the inode number in an entry.
const ENTRY_INO: usize = core::mem::offset_of!(EntryHead, ino);
/// Offset of the kind in an entry.
const ENTRY_KIND: usize = core::mem::offset_of!(EntryHead, kind);
/// Offset of the state in an entry.
const ENTRY_STATE: usize = core::mem::offset_of!(EntryHead, state);

/// A live entry and where it stands; good until the directory changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The inode it names.
    pub ino: u64,
    /// What that is.
    pub kind: FileKind,
    leaf: Ref,
    at: usize,
    head: LeafHead,
    size: usize,
}

/// An index on the way to a leaf.
#[derive(Clone, Copy, Debug)]
struct Turn {
    index: Ref,
    level: u8,
    slot: usize,
}

/// The way from a directory's root node to the leaf of a key.
struct Way {
    leaf: Ref,
    /// The last index, if the root is not a leaf.
    last: Option<Turn>,
}

/// The leaf or index `id` of directory `ino`, which stands `level` steps below the root (S-6.7).
fn look_at(source: &mut impl Source, ino: u64, id: u64, level: u8) -> Step<Ref> {
    let id = MetaId(id);
    if id.space() != Some(Space::Nodes) {
        return Err(damaged(ino, "a directory points at no node (S-6.4)"));
    }
    let node = source.node(id, ino)?;
    let told = source.birth(node)?.level;
    match node.kind {
        Kind::DirIndex if told == level => Ok(node),
        Kind::DirIndex => Err(damaged(
            ino,
            "a directory index has another level than its place (S-6.7)",
        )),
        Kind::DirLeaf if level > 0 || told == 0 => Ok(node),
        Kind::DirLeaf => Err(damaged(ino, "a directory's only leaf has a depth (S-6.7)")),
        _ => Err(damaged(ino, "a directory points at a node of another kind (S-6.4)")),
    }
}

/// Refuses a leaf that stands in other slots of the index than those of its depth (S-6.7).
fn check_slots(source: &mut impl Source, turn: Turn, leaf: Ref, depth: u8) -> Step<()> {
    let own = slots_at(turn.slot, depth);
    let seen = own.start.saturating_sub(1)..(own.end + 1).min(CHILDREN);
    let mut bytes = [0; CHILDREN * 8];
    let bytes = &mut bytes[..seen.len() * 8];
    source.read(turn.index, child_offset(seen.start), bytes)?;
    let (slots, _) = bytes.as_chunks::<8>();
    let mut all = seen.zip(slots);
    match all.all(|(slot, child)| own.contains(&slot) == (u64::from_le_bytes(*child) == leaf.id.0)) {
        true => Ok(()),
        false => Err(damaged(
            leaf.owner,
            "a directory leaf stands in other slots than its depth gives it (S-6.7)",
        )),
    }
}

/// The slots of a leaf of local depth `depth` that has this one (S-6.4).
fn slots_at(slot: usize, depth: u8) -> core::ops::Range<usize> {
    let width = CHILDREN >> depth;
    let start = slot & !(width - 1);
    start..start + width
}

/// The leaf that `key` leads to.
fn descend(source: &mut impl Source, ino: u64, root: u64, key: u64) -> Step<Way> {
    let mut id = root;
    let mut last = None;
    for level in 0..=LEVEL_MAX + 1 {
        let index = match look_at(source, ino, id, level)? {
            leaf if leaf.kind == Kind::DirLeaf => return Ok(Way { leaf, last }),
            index => index,
        };
        if level > LEVEL_MAX {
            break;
        }
        let slot = slot_of(key, level);
        let mut child = [0; 8];
        source.read(index, child_offset(slot), &mut child)?;
        last = Some(Turn { index, level, slot });
        id = u64::from_le_bytes(child);
    }
    Err(damaged(ino, "directory deeper than its key (S-6.4)"))
}

/// What a search found, and in which leaf as it was then: what is searched for once more under more locks needs no search
/// if nothing changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    key: u64,
    /// `None`: the directory had no node.
    leaf: Option<(Ref, Stamp)>,
    /// Where the leaf has room for the name.
    room: Room,
    /// What has the name.
    pub found: Option<Found>,
}

/// What a leaf's head and a search of it tell of the room for a name that it does not have.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    head: LeafHead,
    /// Which of the eight keys of the name are taken.
    twins: u8,
    /// The first dead entry of exactly the size that the name takes.
    dead: Option<usize>,
}

/// The live entry `name` of the directory with this root node, or `None`.
pub(crate) fn find(source: &mut impl Source, seed: [u64; 2], ino: u64, root: u64, name: &[u8]) -> Step<Option<Found>> {
    look(source, seed, ino, root, name).map(|sight| sight.found)
}

/// As [`find`], to be asked again later.
pub(crate) fn look(source: &mut impl Source, seed: [u64; 2], ino: u64, root: u64, name: &[u8]) -> Step<Sight> {
    if root == 0 {
        return Ok(Sight::default());
    }
    let key = name_key(seed, name);
    let way = descend(source, ino, root, key)?;
    let stamp = source.stamp(way.leaf)?;
    let search = search::search(source, way.leaf, key, name)?;
    Ok(Sight {
        key,
        leaf: Some((way.leaf, stamp)),
        room: search.room,
        found: search.found,
    })
}

/// As [`look`], which was called for the same name and gave `before`.
pub(crate) fn look_again(
    source: &mut impl Source,
    seed: [u64; 2],
    ino: u64,
    root: u64,
    name: &[u8],
    before: &Sight,
) -> Step<Option<Found>> {
    if let (Some((leaf, stamp)), true) = (before.leaf, root != 0) {
        let way = descend(source, ino, root, before.key)?;
        if way.leaf == leaf && stamp.is_still(source.stamp(leaf)?) {
            return Ok(before.found);
        }
    }
    find(source, seed, ino, root, name)
}

/// Points a live entry at another inode (rename over it, exchange).
pub(crate) fn replace(txn: &mut Txn<'_>, found: &Found, ino: u64, kind: FileKind) -> Step<()> {
    txn.put(found.leaf, found.at + ENTRY_INO, &ino.to_le_bytes(), Meaning::Dirent)?;
    let keeps = planted::has(Logic::KindKept) && kind != FileKind::Dir && found.kind != FileKind::Dir;
    if kind != found.kind && !keeps {
        txn.put(found.leaf, found.at + ENTRY_KIND, &[kind as u8], Meaning::Dirent)?;
    }
    Ok(())
}

/// Removes a live entry. The last one of a leaf gives its bytes back at once, others when the leaf is compacted.
pub(crate) fn remove(txn: &mut Txn<'_>, dir: &mut Held, found: &Found) -> Step<()> {
    let mut head = found.head;
    head.live.set(head.live.get().saturating_sub(1));
    if head.live.get() == 0 {
        head.tail.set(FIRST as u16);
        head.dead.set(0);
    } else if found.at + found.size == usize::from(head.tail.get()) {
        head.tail.set(found.at as u16);
    } else {
        let dead = if planted::has(Logic::DeadNotCounted) {
            0
        } else {
            found.size
        };
        head.dead.set(head.dead.get().saturating_add(dead as u16));
        txn.put(found.leaf, found.at + ENTRY_STATE, &[DEAD], Meaning::Dirent)?;
    }
    if head.live.get() > 0 && planted::has(Logic::LeafStillCounts) {
        head.live = found.head.live;
    }
    txn.put_diff(
        found.leaf,
        leaf::HEAD,
        found.head.as_bytes(),
        head.as_bytes(),
        Meaning::DirNode,
    )?;
    let gone = u64::from(!planted::has(Logic::EntryStillCounts));
    dir.now.entries.set(dir.now.entries.get().saturating_sub(gone));
    Ok(())
}

#[cfg(test)]
mod tests;
