//! Where a file's structures are, for `keepfs inject` into a pool for tests (S-2.8). Looks only; changes nothing.

use crate::blockmap;
use crate::errors::Result;
use crate::inode;
use crate::volume::Volume;
use keepfs_format::bitmap::BITS;
use keepfs_format::inode::{BODY_TREE, block_of, offset_of};
use keepfs_format::{MetaId, Space};

/// A structure, by the inode it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The inode itself.
    Inode,
    /// The root node of a directory.
    Dir,
    /// The root node of a file's block map.
    Map,
    /// The bitmap metablock that has the inode's number.
    Bitmap,
    /// The first metablock of the inode's extended attributes.
    Xattr,
}

impl Volume {
    /// The metablock that holds a part of an inode, and where in it the part begins, bytes. `None`: the inode has no such
    /// metablock. Errors: there is no such inode.
    pub fn part_of(&self, ino: u64, part: Part) -> Result<Option<(MetaId, usize)>> {
        let inode = self.see(|view| inode::live(view, ino))?;
        let node = |id: u64| (id != 0).then_some((MetaId(id), 0));
        Ok(match part {
            Part::Inode => Some((block_of(ino), offset_of(ino))),
            Part::Dir => node(inode.root.get()).filter(|_| inode.body != BODY_TREE),
            Part::Map => node(inode.root.get()).filter(|_| inode.body == BODY_TREE),
            Part::Bitmap => Some((MetaId::new(Space::InodeNumbers, ino / BITS), 0)),
            Part::Xattr => node(inode.xattrs.get()),
        })
    }

    /// The page of the device that holds page `index` of a file, with everything staged written out before. `None`: it has
    /// none. Errors: there is no such inode; those of the device.
    pub fn data_page_of(&self, ino: u64, index: u64) -> Result<Option<u64>> {
        self.settle()?;
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| inode::live(view, ino))?;
        let entry = self.entry_at(ino, &inode, index)?;
        Ok(blockmap::is_written(&entry).then(|| entry.page()))
    }
}
