//! Block maps: where each page of a file lives (SPEC section 7, S-5.4).
//!
//! Invariants: (1) `pages` of the inode is the number of entries that are not holes; (2) a node with no entry left is
//! freed; (3) the tree is as high as its greatest index ever needed; (4) `get` and `next` see a pending hole as a hole
//! (S-5.8), `clear` sees what is left in it, and nothing is set there. Functions run under the inode's lock.

mod clear;
mod set;
mod walk;

pub(crate) use clear::{Budget, Freed, clear};
pub(crate) use set::set;
pub(crate) use walk::{Next, Passed, Want, count, next, next_at_once};

use crate::errors::{Step, damaged};
use crate::inode::pending_hole;
use keepfs_format::blockmap::{Child, FANOUT, PageEntry, UNWRITTEN, WRITTEN, coverage, entry_offset};
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, DIRECT, Inode};
use keepfs_format::{FromBytes, FromZeros, IntoBytes, Kind, MetaId, Space};
use keepfs_store::{Birth, Ref, Source};

/// Bytes of all entries of a node.
const ENTRIES: usize = FANOUT as usize * size_of::<PageEntry>();

/// Whether the entry holds data on the device.
pub(crate) fn is_written(entry: &PageEntry) -> bool {
    entry.flags() == WRITTEN
}

/// Whether the entry is allocated and reads as zeros.
pub(crate) fn is_unwritten(entry: &PageEntry) -> bool {
    entry.flags() == UNWRITTEN
}

/// Whether the entry has a page in the page bitmap (S-7.3).
pub(crate) fn has_page(entry: &PageEntry) -> bool {
    is_written(entry) || is_unwritten(entry)
}

/// A node reference of `ino`, if the id can be one.
fn node(ino: u64, id: u64) -> Step<Ref> {
    let id = MetaId(id);
    if id.space() != Some(Space::Nodes) {
        return Err(damaged(ino, "a block map points at no node (S-7.1)"));
    }
    Ok(Ref::node(id, Kind::BlockMap, ino))
}

/// Refuses a node whose header has another level than its place (S-7.7): whoever follows a reference asks this, so no way through
/// a map is longer than its height.
fn placed(source: &mut impl Source, r: Ref, level: u8) -> Step<Birth> {
    let birth = source.birth(r)?;
    match birth.level == level {
        true => Ok(birth),
        false => Err(damaged(
            r.owner,
            "a node of the block map has another level than its place (S-7.7)",
        )),
    }
}

/// The four entries of the body area.
fn direct(inode: &Inode) -> [PageEntry; DIRECT as usize] {
    <[PageEntry; DIRECT as usize]>::read_from_bytes(&inode.body_area).unwrap_or_default()
}

/// Number of pages that a tree of `height` covers.
fn reach(height: u8) -> u64 {
    coverage(height + 1)
}

/// Slot of a node of `level` that leads to page `index`.
fn slot(index: u64, level: u8) -> u64 {
    index / coverage(level) % FANOUT
}

/// Entry `slot` of an inner node.
fn child(source: &mut impl Source, r: Ref, slot: u64) -> Step<Option<Ref>> {
    let mut child = Child::default();
    source.read(r, entry_offset(slot), child.as_mut_bytes())?;
    if child.id.get() == 0 {
        Ok(None)
    } else {
        node(r.owner, child.id.get()).map(Some)
    }
}

/// The level-1 node that covers page `index`.
fn leaf(source: &mut impl Source, ino: u64, inode: &Inode, index: u64) -> Step<Option<Ref>> {
    if index >= reach(inode.height) {
        return Ok(None);
    }
    let mut r = node(ino, inode.root.get())?;
    for level in (2..=inode.height).rev() {
        placed(source, r, level)?;
        match child(source, r, slot(index, level))? {
            Some(below) => r = below,
            None => return Ok(None),
        }
    }
    placed(source, r, 1)?;
    Ok(Some(r))
}

/// The parts of `first .. first + count` that lie in one level-1 node each: (index, offset in the range, length).
fn pieces(first: u64, count: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let index = first + done as u64;
        let room = (FANOUT - index % FANOUT) as usize;
        let len = room.min(count - done);
        let piece = (len > 0).then_some((index, done, len));
        done += len;
        piece
    })
}

/// The entries of pages `first ..`, as many as `out` takes; holes where nothing is mapped or a hole is pending (S-5.8).
pub(crate) fn get(source: &mut impl Source, ino: u64, inode: &Inode, first: u64, out: &mut [PageEntry]) -> Step<()> {
    out.fill(PageEntry::HOLE);
    match inode.body {
        BODY_DIRECT if first < DIRECT => {
            let entries = direct(inode);
            for (to, from) in out.iter_mut().zip(&entries[first as usize..]) {
                *to = *from;
            }
        }
        BODY_TREE => {
            for (index, at, len) in pieces(first, out.len()) {
                if let Some(r) = leaf(source, ino, inode, index)? {
                    source.read(r, entry_offset(index % FANOUT), out[at..at + len].as_mut_bytes())?;
                }
            }
        }
        _ => {}
    }
    let hole = pending_hole(inode);
    let within = |index: u64| (index.clamp(first, first + out.len() as u64) - first) as usize;
    let hidden = within(hole.start)..within(hole.end);
    out[hidden].fill(PageEntry::HOLE);
    for entry in out.iter() {
        check(ino, entry)?;
    }
    Ok(())
}

/// Refuses entries that S-7.2 does not know.
fn check(ino: u64, entry: &PageEntry) -> Step<()> {
    if entry.is_hole() || matches!(entry.flags(), 1 | 2 | 4) {
        return Ok(());
    }
    Err(damaged(ino, "page entry of unknown state (S-7.2)"))
}

/// All entries of a node of any level, as bytes.
fn read_all(source: &mut impl Source, r: Ref) -> Step<[u8; ENTRIES]> {
    let mut bytes = [0; ENTRIES];
    source.read(r, entry_offset(0), &mut bytes)?;
    Ok(bytes)
}

/// Entry `slot` of the bytes of a level-1 node.
fn entry_at(bytes: &[u8; ENTRIES], slot: usize) -> PageEntry {
    bytes
        .get(slot * 16..slot * 16 + 16)
        .and_then(|b| PageEntry::read_from_bytes(b).ok())
        .unwrap_or_default()
}

/// Entry `slot` of the bytes of an inner node.
fn child_at(bytes: &[u8; ENTRIES], slot: usize) -> u64 {
    bytes
        .get(slot * 16..slot * 16 + 16)
        .and_then(|b| Child::read_from_bytes(b).ok())
        .unwrap_or_else(Child::new_zeroed)
        .id
        .get()
}

#[cfg(test)]
mod tests;
