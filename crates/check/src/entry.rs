//! The entry of one page in a file's block map (SPEC section 7).

use crate::pool::{Load, Pool, header};
use keepfs_format::blockmap::{Child, FANOUT, HEIGHT_MAX, PageEntry, coverage, entry_offset};
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, Inode, LIVE, block_of, offset_of};
use keepfs_format::{FromBytes, IntoBytes, Kind, MetaId};

/// Page `index` of inode `ino`; `None` if nothing readable leads there.
pub(crate) fn of(pool: &mut Pool<'_>, ino: u64, index: u64) -> Option<PageEntry> {
    let Load::Live(block) = pool.load(block_of(ino)) else {
        return None;
    };
    let (inode, _) = Inode::read_from_prefix(block.get(offset_of(ino)..)?).ok()?;
    if inode.state.get() != LIVE {
        return None;
    }
    if inode.body == BODY_DIRECT {
        let entries: [PageEntry; 4] = FromBytes::read_from_bytes(inode.body_area.as_bytes()).ok()?;
        return entries.get(usize::try_from(index).ok()?).copied();
    }
    let (mut id, mut level) = (inode.root.get(), inode.height.min(HEIGHT_MAX));
    if inode.body != BODY_TREE || index / coverage(level) >= FANOUT {
        return None;
    }
    while level > 0 {
        let Load::Live(node) = pool.load(MetaId(id)) else {
            return None;
        };
        let head = header(&node);
        if head.kind != Kind::BlockMap as u8 || head.level != level || head.owner.get() != ino {
            return None;
        }
        let at = entry_offset(index / coverage(level) % FANOUT);
        if level == 1 {
            return PageEntry::read_from_prefix(&node[at..]).ok().map(|(entry, _)| entry);
        }
        id = Child::read_from_prefix(&node[at..])
            .ok()
            .map(|(child, _)| child.id.get())?;
        level -= 1;
    }
    None
}
