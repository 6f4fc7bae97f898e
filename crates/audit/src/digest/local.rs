//! Rules of one structure alone: ranges and kinds.

use keepfs_format::inode::{BODY_DIRECT, BODY_NONE, BODY_TREE, Inode, LIVE};

/// `mode >> 12` of a regular file.
const FILE: u8 = 8;

/// Whether an inode with names may be on the hidden list, or just have left it: a file whose pages are being freed
/// (S-5.6). The last of them leaves a body of pages, or none, or of an empty file.
pub(super) fn may_be_cut(inode: &Inode) -> bool {
    let has_pages = matches!(inode.body, BODY_NONE | BODY_DIRECT | BODY_TREE) || inode.size.get() == 0;
    inode.state.get() == LIVE && super::inodes::kind(inode) == FILE && inode.nlink.get() > 0 && has_pages
}
