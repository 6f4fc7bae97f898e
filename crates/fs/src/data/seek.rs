//! Finding data and holes. A page is data once it was written or allocated; staged pages are data.

use super::page::place;
use super::read::offset_of;
use super::{PAGE_BYTES, regular};
use crate::Volume;
use crate::blockmap::{self, Next, Passed, Want};
use crate::errors::{Result, Step, refuse};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_vfs::{Errno, SeekWhence};

impl Volume {
    /// The next byte of data or hole. Where that is far, the file's lock is let go of now and then (S-20.12).
    /// Errors: `ENXIO`, `EISDIR`, `EINVAL`.
    pub(crate) fn do_seek(&self, ino: u64, offset: u64, whence: SeekWhence) -> Result<u64> {
        let (mut from, mut passed) = (place(offset).0, Passed::default());
        loop {
            let _lock = self.locks.shared(ino);
            let inode = self.see(|view| {
                let inode = self.usable(view, ino)?;
                regular(&inode)?;
                in_file(&inode, offset)?;
                Ok(inode)
            })?;
            let size = inode.size.get();
            let range = (from, size.div_ceil(PAGE_BYTES));
            let found = match whence {
                SeekWhence::Data => self.next_data(ino, &inode, range, &mut passed)?,
                SeekWhence::Hole => self.next_hole(ino, &inode, range, &mut passed)?,
            };
            return match (found, whence) {
                (Next::Later(index), _) => {
                    from = index;
                    continue;
                }
                (Next::At(index), SeekWhence::Data) => Ok(offset_of(index).max(offset)),
                (Next::Nowhere, SeekWhence::Data) => Err(Errno::ENXIO.into()),
                (Next::At(index), SeekWhence::Hole) => Ok(offset_of(index).max(offset).min(size)),
                (Next::Nowhere, SeekWhence::Hole) => Ok(size),
            };
        }
    }

    /// The first page from `from` on that is as wanted by its entry.
    pub(crate) fn next_page(&self, ino: u64, inode: &Inode, from: u64, to: u64, want: Want) -> Result<Option<u64>> {
        let mut passed = Passed::default();
        self.see(|view| blockmap::next_at_once(view, ino, inode, (from, to), want, &mut passed))
    }

    fn next_data(&self, ino: u64, inode: &Inode, (from, to): (u64, u64), passed: &mut Passed) -> Result<Next> {
        if inode.body == BODY_INLINE {
            return Ok(if from == 0 { Next::At(0) } else { Next::Nowhere });
        }
        let staged = self
            .store
            .staged_pages(ino)
            .into_iter()
            .find(|p| (from..to).contains(p));
        let range = (from, staged.unwrap_or(to));
        let mapped = self.see(|view| blockmap::next(view, ino, inode, range, Want::Entry, passed))?;
        Ok(match (mapped, staged) {
            (Next::Nowhere, Some(staged)) => Next::At(staged),
            (mapped, _) => mapped,
        })
    }

    fn next_hole(&self, ino: u64, inode: &Inode, (from, to): (u64, u64), passed: &mut Passed) -> Result<Next> {
        if inode.body == BODY_INLINE {
            return Ok(Next::Nowhere);
        }
        let staged = self.store.staged_pages(ino);
        let mut at = from;
        loop {
            match self.see(|view| blockmap::next(view, ino, inode, (at, to), Want::Hole, passed))? {
                Next::At(hole) if staged.binary_search(&hole).is_ok() => at = hole + 1,
                other => return Ok(other),
            }
        }
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
