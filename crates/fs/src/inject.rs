//! For `keepfs inject` into a pool for tests (S-2.8): where a file's structures are, and wrong values by the door.

use crate::Volume;
use crate::blockmap;
use crate::errors::Result;
use crate::inode::{self, kind};
use core::mem::offset_of as field_of;
use keepfs_format::bitmap::BITS;
use keepfs_format::inode::{BODY_TREE, Inode, block_of, offset_of};
use keepfs_format::{MetaId, Space};
use keepfs_store::{Error as StoreError, Meaning, Ref, Source};
use keepfs_vfs::{Errno, FileKind};

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

/// A field of an inode that audit equations speak of (S-17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// How many names it has.
    Links,
    /// How many pages of data it has.
    Pages,
    /// A directory's entries.
    Entries,
    /// A directory's parent.
    Parent,
}

impl Field {
    /// Where in an inode it stands, and its length, bytes.
    fn place(self) -> (usize, usize) {
        match self {
            Field::Links => (field_of!(Inode, nlink), 4),
            Field::Pages => (field_of!(Inode, pages), 8),
            Field::Entries => (field_of!(Inode, entries), 8),
            Field::Parent => (field_of!(Inode, parent), 8),
        }
    }
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

    /// Adds one to a field of an inode in a transaction that does nothing else, as a bug of the file system would: by the
    /// door, with every checksum right. What the audit said of it, which took it back; `None`: nobody saw it, and the pool
    /// has the wrong value. Errors: `BadPool`: this is no pool for tests; `ENOTDIR`: only directories have the field; there
    /// is no such inode.
    pub fn inject_logic(&self, ino: u64, field: Field) -> Result<Option<String>> {
        self.store.for_tests()?;
        let _lock = self.locks.exclusive(ino);
        let inode = self.see(|view| inode::live(view, ino))?;
        if matches!(field, Field::Entries | Field::Parent) && kind(&inode) != FileKind::Dir {
            return Err(crate::errors::Error::Posix(Errno::ENOTDIR));
        }
        let (offset, len) = field.place();
        let (r, at) = (Ref::inode_block(ino), offset_of(ino) + offset);
        let done = self.store.transact::<_, StoreError>(|txn| {
            let mut bytes = [0; 8];
            txn.read(r, at, &mut bytes[..len])?;
            let wrong = u64::from_le_bytes(bytes).wrapping_add(1).to_le_bytes();
            Ok(txn.put(r, at, &wrong[..len], Meaning::Inode)?)
        });
        match done {
            Ok(()) => Ok(None),
            Err(StoreError::Unbalanced(why)) => Ok(Some(why.to_string())),
            Err(other) => Err(other.into()),
        }
    }
}
