//! Files that have a part which is older than the rest (S-21.8, S-21.19).

use crate::inode::pending;
use crate::pool::{Load, Pool, header};
use core::ops::Range;
use keepfs_format::blockmap::{Child, FANOUT, PageEntry, entry_offset};
use keepfs_format::inode::{BODY_DIRECT, BODY_INLINE, BODY_TREE, FILE, Inode, block_of};
use keepfs_format::{FromBytes, Kind, MetaId, PAGE};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Pages of a file that have their place in the inode (S-5.4).
const DIRECT: usize = 4;

/// What the nodes of an inode are that are told to be older.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub kinds: BTreeSet<u8>,
}

/// The owners of all nodes that are told to be older.
pub(crate) fn owners(pool: &mut Pool<'_>) -> BTreeMap<u64, Parts> {
    let mut owners: BTreeMap<u64, Parts> = BTreeMap::new();
    for id in pool.age.older.clone() {
        let Load::Live(bytes) = pool.load(MetaId(id)) else {
            continue;
        };
        let head = header(&bytes);
        if head.owner.get() != 0 {
            owners.entry(head.owner.get()).or_default().kinds.insert(head.kind);
        }
    }
    owners
}

/// Whether the block map, of which every node is there, has fewer pages than the inode says: some node is older than the inode.
pub(crate) fn is_short(pool: &mut Pool<'_>, ino: u64, inode: &Inode) -> bool {
    if pool.age.unproved.is_empty() || inode.body != BODY_TREE || pending(inode) != (0, 0) {
        return false;
    }
    let (mut left, mut seen, mut pages) = (vec![(MetaId(inode.root.get()), inode.height)], HashSet::new(), 0);
    while let Some((id, level)) = left.pop() {
        let Load::Live(bytes) = pool.load(id) else { return false };
        let head = header(&bytes);
        let is_meant = head.kind == Kind::BlockMap as u8 && head.owner.get() == ino && head.level == level && level > 0;
        if !is_meant || !seen.insert(id.0) {
            return false;
        }
        for slot in 0..FANOUT {
            let at = &bytes[entry_offset(slot)..];
            if level == 1 {
                pages += u64::from(PageEntry::read_from_prefix(at).is_ok_and(|(entry, _)| !entry.is_hole()));
            } else if let Ok((child, _)) = Child::read_from_prefix(at)
                && child.id.get() != 0
            {
                left.push((MetaId(child.id.get()), level - 1));
            }
        }
    }
    pages < inode.pages.get()
}

/// Pages of a small file that a newer version of its inode may have where this one has holes: all, if it is known to be older. In a
/// pool without its log the one that its size cuts: the end of a file is staged first (S-8.8).
pub(crate) fn lacking(pool: &Pool<'_>, ino: u64, inode: &Inode) -> Range<u64> {
    let is_file = (inode.mode.get() >> 12) as u8 == FILE && inode.nlink.get() > 0;
    let size = inode.size.get();
    let is_small = size <= (DIRECT * PAGE) as u64 && inode.body <= BODY_DIRECT && inode.body != BODY_INLINE;
    let page = PAGE as u64;
    match (is_file && is_small, is_old(pool, ino)) {
        (true, true) => 0..size.div_ceil(page),
        (true, false) if pool.age.is_without_log => size / page..size.div_ceil(page),
        _ => 0..0,
    }
}

/// Whether a newer version of the inode is known to be lost.
pub(crate) fn is_old(pool: &Pool<'_>, ino: u64) -> bool {
    pool.age.older.contains(&block_of(ino).0)
}

/// Whether a hole of this node may be a page that a newer version has.
pub(crate) fn is_doubtful(pool: &Pool<'_>, id: u64, is_short: bool) -> bool {
    pool.age.older.contains(&id) || is_short && pool.age.unproved.contains(&id)
}
