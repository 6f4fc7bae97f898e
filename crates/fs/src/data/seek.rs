//! Finding data and holes. A page is data once it was written or allocated; staged pages are data.

use super::page::place;
use super::read::offset_of;
use super::{PAGE_BYTES, regular};
use crate::blockmap::{self, Want};
use crate::errors::{Result, Step, refuse};
use crate::volume::Volume;
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_vfs::{Errno, SeekWhence};

impl Volume {
    /// The next byte of data or hole. Errors: `ENXIO`, `EISDIR`, `EINVAL`.
    pub(crate) fn do_seek(&self, ino: u64, offset: u64, whence: SeekWhence) -> Result<u64> {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| {
            let inode = self.usable(view, ino)?;
            regular(&inode)?;
            in_file(&inode, offset)?;
            Ok(inode)
        })?;
        self.seek_locked(ino, &inode, offset, whence)?
            .ok_or(Errno::ENXIO.into())
    }

    /// The next byte of data, if there is one, or of a hole. Called with the inode's lock held.
    pub(crate) fn seek_locked(&self, ino: u64, inode: &Inode, offset: u64, whence: SeekWhence) -> Result<Option<u64>> {
        let size = inode.size.get();
        let (index, _) = place(offset);
        let pages = size.div_ceil(PAGE_BYTES);
        Ok(match whence {
            SeekWhence::Data => self
                .next_data(ino, inode, index, pages)?
                .map(|found| offset_of(found).max(offset)),
            SeekWhence::Hole => {
                let found = self.next_hole(ino, inode, index, pages)?;
                Some(found.map_or(size, |found| offset_of(found).max(offset).min(size)))
            }
        })
    }

    /// The first page from `from` on that is as wanted by its entry.
    pub(crate) fn next_page(&self, ino: u64, inode: &Inode, from: u64, to: u64, want: Want) -> Result<Option<u64>> {
        let visits = self.store.figures().pages;
        self.see(|view| blockmap::next(view, ino, inode, from, to, want, visits))
    }

    fn next_data(&self, ino: u64, inode: &Inode, from: u64, to: u64) -> Result<Option<u64>> {
        if inode.body == BODY_INLINE {
            return Ok((from == 0).then_some(0));
        }
        let staged = self
            .store
            .staged_pages(ino)
            .into_iter()
            .find(|p| (from..to).contains(p));
        let mapped = self.next_page(ino, inode, from, staged.unwrap_or(to), Want::Entry)?;
        Ok(mapped.or(staged))
    }

    fn next_hole(&self, ino: u64, inode: &Inode, from: u64, to: u64) -> Result<Option<u64>> {
        if inode.body == BODY_INLINE {
            return Ok(None);
        }
        let staged = self.store.staged_pages(ino);
        let mut at = from;
        while let Some(hole) = self.next_page(ino, inode, at, to, Want::Hole)? {
            if staged.binary_search(&hole).is_err() {
                return Ok(Some(hole));
            }
            at = hole + 1;
        }
        Ok(None)
    }
}

/// Errors: `ENXIO` past the end.
fn in_file(inode: &Inode, offset: u64) -> Step<()> {
    if offset >= inode.size.get() {
        refuse(Errno::ENXIO)
    } else {
        Ok(())
    }
}
