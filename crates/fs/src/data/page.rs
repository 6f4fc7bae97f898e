//! One page of a file as it is now, with its CRC-32C checked.

use super::PAGE_BYTES;
use crate::Volume;
use crate::blockmap;
use crate::errors::{Error, Result};
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{BODY, BODY_INLINE, Inode};
use keepfs_store::BadData;

/// The page of the file under a page that is to be staged: what `stage` wants as base.
pub(crate) enum Under {
    /// It was allocated, and reads as zeros.
    Unwritten,
    Written {
        entry: PageEntry,
        content: Box<[u8; PAGE]>,
    },
}

impl Under {
    /// As the store takes it.
    pub fn base(&self) -> keepfs_store::Base<'_> {
        match self {
            Under::Unwritten => keepfs_store::Base::UNWRITTEN,
            Under::Written { entry, content } => keepfs_store::Base {
                page: entry.page(),
                crc: entry.crc.get(),
                content,
            },
        }
    }

    /// Whether it may hold anything but zeros.
    pub fn is_written(&self) -> bool {
        matches!(self, Under::Written { .. })
    }
}

impl Volume {
    /// The entry of one page.
    pub(crate) fn entry_at(&self, ino: u64, inode: &Inode, index: u64) -> Result<PageEntry> {
        let mut entry = [PageEntry::HOLE];
        self.see(|view| blockmap::get(view, ino, inode, index, &mut entry))?;
        Ok(entry[0])
    }

    /// Reads a written page and checks it; read twice, and its entry again, before it is believed to be bad. Zeros for others.
    /// Called with the inode's lock held.
    pub(crate) fn load_entry(&self, ino: u64, index: u64, entry: &PageEntry, page: &mut [u8; PAGE]) -> Result<()> {
        let first = self.load_as(entry, page);
        if matches!(first, Ok(None)) {
            return Ok(());
        }
        let other = self.other_entry(ino, index, entry)?;
        let (entry, read) = match &other {
            Some(now) => (now, self.load_as(now, page)),
            None => (entry, first),
        };
        match read? {
            None => Ok(()),
            Some(bad) => Err(self.bad_page(ino, index, entry, bad)),
        }
    }

    /// What is wrong with the page, if it is not as its entry says. Errors: those of a device that is not there.
    fn load_as(&self, entry: &PageEntry, page: &mut [u8; PAGE]) -> Result<Option<BadData>> {
        if entry.is_hole() || blockmap::is_unwritten(entry) {
            page.fill(0);
            return Ok(None);
        }
        let mut bad = BadData::Checksum;
        for _ in 0..if blockmap::is_written(entry) { 2 } else { 0 } {
            bad = match self.store.read_data(entry.page(), page) {
                Ok(()) if crc32c::of(page) == entry.crc.get() => return Ok(None),
                Ok(()) => BadData::Checksum,
                Err(error) if error.is_device_io() => BadData::Unreadable,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some(bad))
    }

    /// What the entry of a page is when it is read again, if that is something else: then who read it had it wrong, and the
    /// page is not (S-7.6). Not asked of pages that are known to be bad. Called with the inode's lock held.
    pub(crate) fn other_entry(&self, ino: u64, index: u64, entry: &PageEntry) -> Result<Option<PageEntry>> {
        if self.lost.has(ino, index, entry) {
            return Ok(None);
        }
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let now = self.entry_at(ino, &inode, index)?;
        Ok((now != *entry).then_some(now))
    }

    /// The bytes of a page, wherever they are. Called with the inode's lock held.
    pub(crate) fn load_page(&self, ino: u64, inode: &Inode, index: u64, page: &mut [u8; PAGE]) -> Result<()> {
        if inode.body == BODY_INLINE {
            page.fill(0);
            if index == 0 {
                page[..BODY].copy_from_slice(&inode.body_area);
            }
            return Ok(());
        }
        if self.store.staged(ino, index, page)? {
            return Ok(());
        }
        let entry = self.entry_at(ino, inode, index)?;
        self.load_entry(ino, index, &entry, page)
    }

    /// Whether the page is staged.
    pub(crate) fn is_staged(&self, ino: u64, index: u64) -> bool {
        self.store.is_staged(ino, index)
    }

    /// The page under page `index`, if that is not staged yet.
    pub(crate) fn under(&self, ino: u64, inode: &Inode, index: u64) -> Result<Option<Under>> {
        let is_lost = self.store.is_staged_lost(ino, index);
        if is_lost == Some(true) {
            // S-7.6: a part of it cannot be changed.
            return Err(Error::BadPage { ino, index });
        }
        if inode.body == BODY_INLINE || is_lost.is_some() {
            return Ok(None);
        }
        let entry = self.entry_at(ino, inode, index)?;
        if entry.is_hole() {
            return Ok(None);
        }
        if blockmap::is_unwritten(&entry) {
            return Ok(Some(Under::Unwritten));
        }
        let mut content = Box::new([0; PAGE]);
        self.load_entry(ino, index, &entry, &mut content)?;
        Ok(Some(Under::Written { entry, content }))
    }
}

/// The page of the byte at `offset`, and the byte's place in it.
pub(crate) fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize)
}
