//! What is in a file: its pages, staged ones first (SPEC S-8.8), and its attributes (S-7.4).

use super::{ReadError, View};
use crate::inode::{direct, pending};
use crate::pool::header;
use crate::{Page, xattr};
use keepfs_codes::crc32c;
use keepfs_format::blockmap::{Child, PageEntry, UNWRITTEN, WRITTEN, coverage, entry_offset};
use keepfs_format::inode::{BODY_INLINE, BODY_TREE, Inode, XATTR_CHAIN};
use keepfs_format::metablock::HEADER;
use keepfs_format::xattr::{ChainHead, PAYLOAD, PAYLOAD_OFFSET, TOTAL_MAX};
use keepfs_format::{FromBytes, Kind, MetaId, PAGE};

/// Number of the namespace (S-7.4), name without its prefix, value.
pub type Xattr = (u8, Vec<u8>, Vec<u8>);

impl View<'_> {
    /// Page `index` of a file or symlink as a reader would get it; zeros for a hole. Bytes beyond the size are zeros
    /// unless the pool is damaged.
    ///
    /// # Errors
    /// As [`View::inode`]; [`ReadError::Data`] if the page is lost or its CRC is another.
    pub fn page(&mut self, ino: u64, index: u64) -> Result<Box<Page>, ReadError> {
        let inode = self.inode(ino)?;
        let (pages, image) = (self.pool.pages(), self.pool.image);
        if let Some(staged) = self.stage.pages.get(&(ino, index)) {
            let content = staged.content(|page, bytes| page < pages && image.read(page, bytes).is_ok());
            return content.ok_or(ReadError::Data { ino, index });
        }
        let mut bytes = Box::new([0; PAGE]);
        if inode.body == BODY_INLINE && index == 0 {
            bytes[..inode.body_area.len()].copy_from_slice(&inode.body_area);
        }
        let entry = self.page_entry(ino, &inode, index)?;
        match entry.flags() {
            WRITTEN => {
                let read = entry.page() < pages && image.read(entry.page(), &mut bytes).is_ok();
                let good = read && crc32c::of(&bytes[..]) == entry.crc.get();
                good.then_some(bytes).ok_or(ReadError::Data { ino, index })
            }
            UNWRITTEN | 0 => Ok(bytes),
            _ => Err(ReadError::Data { ino, index }),
        }
    }

    /// Where the block map has page `index`; a hole if nowhere, or in a pending hole (S-5.8).
    fn page_entry(&mut self, ino: u64, inode: &Inode, index: u64) -> Result<PageEntry, ReadError> {
        if let Some(entries) = direct(inode) {
            let entry = usize::try_from(index)
                .ok()
                .and_then(|index| entries.get(index).copied());
            return Ok(entry.unwrap_or(PageEntry::HOLE));
        }
        let (from, to) = pending(inode);
        if inode.body != BODY_TREE || (from..to).contains(&index) || index >= coverage(inode.height.saturating_add(1)) {
            return Ok(PageEntry::HOLE);
        }
        let (mut id, mut level) = (MetaId(inode.root.get()), inode.height);
        loop {
            let bytes = self.node(id, Kind::BlockMap, ino)?;
            if level == 0 || header(&bytes).level != level {
                return Err(ReadError::Bad(id.into()));
            }
            let at = entry_offset(index / coverage(level));
            if level == 1 {
                return Ok(PageEntry::read_from_prefix(&bytes[at..]).map_or(PageEntry::HOLE, |(entry, _)| entry));
            }
            let child = Child::read_from_prefix(&bytes[at..]).map_or_else(|_| Child::default(), |(child, _)| child);
            if child.id.get() == 0 {
                return Ok(PageEntry::HOLE);
            }
            (id, level) = (MetaId(child.id.get()), level - 1);
        }
    }

    /// A node of this kind that belongs to `owner`.
    pub(super) fn node(&mut self, id: MetaId, kind: Kind, owner: u64) -> Result<Page, ReadError> {
        let bytes = self.metablock(id)?.ok_or(ReadError::Bad(id.into()))?;
        let head = header(&bytes);
        let right = head.kind == kind as u8 && head.owner.get() == owner;
        right.then_some(bytes).ok_or(ReadError::Bad(id.into()))
    }

    /// The extended attributes, in the order in which they are stored.
    ///
    /// # Errors
    /// As [`View::inode`]; [`ReadError::Attributes`] if the list is not as S-7.4 says.
    pub fn xattrs(&mut self, ino: u64) -> Result<Vec<Xattr>, ReadError> {
        let inode = self.inode(ino)?;
        let used = inode.xattr.get();
        let payload = if used == XATTR_CHAIN {
            self.chain(ino, inode.xattrs.get())?
        } else {
            inode
                .xattr_area
                .get(..used.into())
                .ok_or(ReadError::Attributes(ino))?
                .to_vec()
        };
        let (mut rest, mut list) = (&payload[..], Vec::new());
        while !rest.is_empty() {
            let attr = xattr::split(rest).ok_or(ReadError::Attributes(ino))?;
            list.push((attr.namespace, attr.name.to_vec(), attr.value.to_vec()));
            rest = attr.rest;
        }
        Ok(list)
    }

    fn chain(&mut self, ino: u64, mut next: u64) -> Result<Vec<u8>, ReadError> {
        let mut payload = Vec::new();
        // Empty metablocks count too, so that a ring of them ends.
        let mut left = TOTAL_MAX / PAYLOAD + 2;
        while next != 0 {
            left = left.checked_sub(1).ok_or(ReadError::Attributes(ino))?;
            let bytes = self.node(MetaId(next), Kind::Xattr, ino)?;
            let link = ChainHead::read_from_prefix(&bytes[HEADER..]).map_or_else(|_| ChainHead::default(), |(l, _)| l);
            let used = usize::from(link.used.get());
            let part = bytes
                .get(PAYLOAD_OFFSET..PAYLOAD_OFFSET + used)
                .ok_or(ReadError::Attributes(ino))?;
            payload.extend_from_slice(part);
            next = link.next.get();
        }
        Ok(payload)
    }
}
