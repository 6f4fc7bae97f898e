//! Freeing the nodes of a directory that was removed, a bounded number at a time, from the end backwards.

use super::look_at;
use crate::errors::{Step, damaged};
use crate::inode::Held;
use keepfs_format::Kind;
use keepfs_format::dir::{CHILDREN, LEVEL_MAX, child_offset};
use keepfs_store::{Meaning, Ref, Source, Txn};

/// Frees up to `budget` nodes of an unlinked directory; `true` when none is left.
pub(crate) fn drain(txn: &mut Txn<'_>, dir: &mut Held, budget: usize) -> Step<bool> {
    let root = dir.now.root.get();
    if root == 0 {
        return Ok(true);
    }
    let mut left = budget;
    if !drain_node(txn, dir.ino, root, 0, &mut left)? {
        return Ok(false);
    }
    dir.now.root.set(0);
    Ok(true)
}

/// Frees a node with all below; `false` if the budget ended first.
fn drain_node(txn: &mut Txn<'_>, ino: u64, id: u64, level: u8, budget: &mut usize) -> Step<bool> {
    let r = look_at(txn, ino, id, level)?;
    if r.kind == Kind::DirIndex {
        if level > LEVEL_MAX {
            return Err(damaged(ino, "directory deeper than its key (S-6.4)"));
        }
        if !drain_children(txn, r, level, budget)? {
            return Ok(false);
        }
        txn.free_node(r)?;
        return Ok(true);
    }
    if *budget == 0 {
        return Ok(false);
    }
    *budget -= 1;
    txn.free_node(r)?;
    Ok(true)
}

/// Frees the children of an index and zeroes their slots as far as the budget goes.
fn drain_children(txn: &mut Txn<'_>, index: Ref, level: u8, budget: &mut usize) -> Step<bool> {
    let mut bytes = [0; CHILDREN * 8];
    txn.read(index, child_offset(0), &mut bytes)?;
    let slots = bytes.as_chunks::<8>().0;
    let mut end = CHILDREN;
    let mut last = None;
    for slot in (0..CHILDREN).rev() {
        let child = u64::from_le_bytes(slots[slot]);
        if child != 0 && last != Some(child) {
            if !drain_node(txn, index.owner, child, level + 1, budget)? {
                break;
            }
            last = Some(child);
        }
        end = slot;
    }
    if end < CHILDREN && end > 0 {
        let zeros = [0; CHILDREN * 8];
        txn.put(
            index,
            child_offset(end),
            &zeros[..(CHILDREN - end) * 8],
            Meaning::DirNode,
        )?;
    }
    Ok(end == 0)
}
