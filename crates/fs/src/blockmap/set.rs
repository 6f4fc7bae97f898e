//! Setting page entries: the body grows from direct entries to a tree and in height as needed.

use super::{check, child, direct, node, pieces, placed, reach, slot};
use crate::errors::{Step, damaged};
use crate::inode::{Held, pending_hole};
use keepfs_format::blockmap::{Child, FANOUT, HEIGHT_MAX, PageEntry, entry_offset};
use keepfs_format::inode::{BODY, BODY_DIRECT, BODY_INLINE, BODY_NONE, BODY_TREE, DIRECT};
use keepfs_format::oplog::Action;
use keepfs_format::{IntoBytes, Kind};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Meaning, Ref, Source, Txn};

/// Sets the entries of pages `first ..` to `new` and tells what they were in `old` (as long as `new`).
/// An inline body must have been staged before. Keeps `pages` of the inode.
pub(crate) fn set(
    txn: &mut Txn<'_>,
    file: &mut Held,
    first: u64,
    new: &[PageEntry],
    old: &mut [PageEntry],
) -> Step<()> {
    if new.is_empty() {
        return Ok(());
    }
    let hole = pending_hole(&file.now);
    if hole.start < first + new.len() as u64 && first < hole.end {
        return Err(damaged(file.ino, "pages are set in a pending hole (S-5.8)"));
    }
    grow(txn, file, first + new.len() as u64 - 1)?;
    if file.now.body == BODY_DIRECT {
        let mut entries = direct(&file.now);
        for (i, (entry, was)) in new.iter().zip(old.iter_mut()).enumerate() {
            *was = core::mem::replace(&mut entries[first as usize + i], *entry);
        }
        file.now.body_area.copy_from_slice(entries.as_bytes());
    } else {
        for (index, at, len) in pieces(first, new.len()) {
            let r = leaf_for(txn, file, index)?;
            put(txn, r, index, &new[at..at + len], &mut old[at..at + len])?;
        }
    }
    let map = Action::Map {
        first,
        was: old.iter().filter(|e| !e.is_hole()).count() as u64,
        entries: new,
    };
    txn.op(file.ino, map)?;
    count(file, new, old)
}

/// Adapts the inode's count of pages.
fn count(file: &mut Held, new: &[PageEntry], old: &[PageEntry]) -> Step<()> {
    let allocated = |entries: &[PageEntry]| entries.iter().filter(|e| !e.is_hole()).count() as u64;
    for entry in old {
        check(file.ino, entry)?;
    }
    let pages = file.now.pages.get().saturating_add(allocated(new));
    let gone = match planted::has(Logic::PagesCountedTwice) {
        true => 0,
        false => allocated(old),
    };
    file.now.pages.set(pages.saturating_sub(gone));
    Ok(())
}

/// Stores entries in a level-1 node.
fn put(txn: &mut Txn<'_>, r: Ref, index: u64, new: &[PageEntry], old: &mut [PageEntry]) -> Step<()> {
    let offset = entry_offset(index % FANOUT);
    txn.read(r, offset, old.as_mut_bytes())?;
    txn.put_diff(r, offset, old.as_bytes(), new.as_bytes(), Meaning::MapEntry)?;
    Ok(())
}

/// Makes the body able to hold page `last`.
fn grow(txn: &mut Txn<'_>, file: &mut Held, last: u64) -> Step<()> {
    match file.now.body {
        BODY_NONE if last < DIRECT => {
            file.now.body = BODY_DIRECT;
            file.now.body_area = [0; BODY];
        }
        BODY_NONE => new_tree(txn, file, last)?,
        BODY_DIRECT if last >= DIRECT => {
            let mut entries = direct(&file.now);
            new_tree(txn, file, last)?;
            if entries.iter().any(|e| !e.is_hole()) {
                let new = entries;
                let r = leaf_for(txn, file, 0)?;
                put(txn, r, 0, &new, &mut entries)?;
            }
        }
        BODY_TREE => {
            while last >= reach(file.now.height) {
                raise(txn, file)?;
            }
        }
        BODY_INLINE => return Err(damaged(file.ino, "inline body where pages are set (S-5.3)")),
        _ => {}
    }
    Ok(())
}

/// An empty tree that reaches page `last`.
fn new_tree(txn: &mut Txn<'_>, file: &mut Held, last: u64) -> Step<()> {
    let height = (1..=HEIGHT_MAX).find(|h| last < reach(*h)).unwrap_or(HEIGHT_MAX);
    let root = txn.new_node(Kind::BlockMap, height, file.ino)?;
    file.now.body = BODY_TREE;
    file.now.body_area = [0; BODY];
    file.now.height = height;
    file.now.root.set(root.id.0);
    Ok(())
}

/// Puts a new root over the tree.
fn raise(txn: &mut Txn<'_>, file: &mut Held) -> Step<()> {
    let height = file.now.height + 1;
    if height > HEIGHT_MAX {
        return Err(damaged(file.ino, "page index beyond the highest tree (S-7.1)"));
    }
    let below = node(file.ino, file.now.root.get())?;
    let root = txn.new_node(Kind::BlockMap, height, file.ino)?;
    link(txn, root, 0, below)?;
    file.now.height = height;
    file.now.root.set(root.id.0);
    Ok(())
}

/// Stores a child in an inner node.
fn link(txn: &mut Txn<'_>, r: Ref, slot: u64, below: Ref) -> Step<()> {
    let generation = txn.node_generation(below)? - u32::from(planted::has(Logic::ChildGenerationOld));
    let child = Child {
        id: below.id.0.into(),
        generation: generation.into(),
        reserved: 0.into(),
    };
    txn.put(r, entry_offset(slot), child.as_bytes(), Meaning::MapNode)?;
    Ok(())
}

/// The level-1 node of page `index`; nodes on the way are made.
fn leaf_for(txn: &mut Txn<'_>, file: &Held, index: u64) -> Step<Ref> {
    let mut r = node(file.ino, file.now.root.get())?;
    for level in (2..=file.now.height).rev() {
        placed(txn, r, level)?;
        let slot = slot(index, level);
        r = match child(txn, r, slot)? {
            Some(below) => below,
            None => {
                let below = txn.new_node(Kind::BlockMap, level - 1, file.ino)?;
                link(txn, r, slot, below)?;
                below
            }
        };
    }
    placed(txn, r, 1)?;
    Ok(r)
}
