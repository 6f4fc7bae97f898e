//! Whether a page that was found by its header is laid out as its kind is: what was overwritten in part is not.

use crate::pool::header;
use crate::{Page, dir, is_zero};
use keepfs_format::blockmap::{self, Child, PageEntry};
use keepfs_format::dir::{CHILDREN, child_offset};
use keepfs_format::inode::{self, Inode};
use keepfs_format::metablock::HEADER;
use keepfs_format::xattr::{ChainHead, PAYLOAD};
use keepfs_format::{FromBytes, Kind, MetaId, Space};

/// False if nobody writes such a page. True says little: an entry that is gone leaves no trace in most kinds.
pub(super) fn is_plausible(bytes: &Page) -> bool {
    let head = header(bytes);
    match Kind::of(head.kind) {
        Some(Kind::Inodes) => bytes[HEADER..].chunks(inode::SIZE).all(is_slot),
        Some(Kind::DirLeaf) => dir::is_laid_out(bytes),
        Some(Kind::DirIndex) => (0..CHILDREN).all(|slot| {
            let child = bytes[child_offset(slot)..].first_chunk();
            child.is_some_and(|id| is_node(u64::from_le_bytes(*id)))
        }),
        Some(Kind::BlockMap) => (0..blockmap::FANOUT).all(|slot| {
            let at = &bytes[blockmap::entry_offset(slot)..];
            match head.level {
                1 => PageEntry::read_from_prefix(at).is_ok_and(|(entry, _)| entry.is_hole() || is_entry(&entry)),
                _ => Child::read_from_prefix(at)
                    .is_ok_and(|(child, _)| is_node(child.id.get()) && child.reserved.get() == 0),
            }
        }),
        Some(Kind::Xattr) => ChainHead::read_from_prefix(&bytes[HEADER..])
            .is_ok_and(|(head, _)| is_node(head.next.get()) && usize::from(head.used.get()) <= PAYLOAD),
        _ => true,
    }
}

fn is_slot(bytes: &[u8]) -> bool {
    match Inode::read_from_bytes(bytes) {
        Ok(inode) if inode.state.get() == 0 => is_zero(bytes),
        Ok(inode) => [inode::LIVE, inode::DEAD].contains(&inode.state.get()) && inode.born <= inode.cur,
        // Less than a slot is left at the end.
        Err(_) => is_zero(bytes),
    }
}

/// Exactly one flag (S-7.2).
fn is_entry(entry: &PageEntry) -> bool {
    [blockmap::WRITTEN, blockmap::UNWRITTEN, blockmap::LOST].contains(&entry.flags())
}

/// A node, or none.
fn is_node(id: u64) -> bool {
    id == 0 || MetaId(id).space() == Some(Space::Nodes)
}
