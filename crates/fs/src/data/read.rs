//! Reading: whole pages straight into the caller's buffer in runs, others through a page of its own.

use super::page::place;
use super::{PAGE_BYTES, regular};
use crate::Volume;
use crate::blockmap;
use crate::errors::Result;
use crate::inode;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::oplog::{Action, Attrs, attr};

/// Entries looked up at once.
const ENTRIES: usize = 64;

impl Volume {
    /// Reads a regular file; returns how much. Errors: `EISDIR`, `EINVAL`, `EIO` for a page that is not as written.
    pub(crate) fn do_read(&self, ino: u64, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let lock = self.locks.shared(ino);
        let inode = self.see(|view| {
            let inode = self.usable(view, ino)?;
            regular(&inode)?;
            Ok(inode)
        })?;
        let count = inode.size.get().saturating_sub(offset).min(buf.len() as u64) as usize;
        self.read_range(ino, &inode, offset, &mut buf[..count])?;
        drop(lock);
        if !buf.is_empty() {
            self.accessed(ino, &inode)?;
        }
        Ok(count)
    }

    /// Fills `buf` from `offset`, all of it below size. Called with the inode's lock held.
    pub(crate) fn read_range(&self, ino: u64, inode: &Inode, offset: u64, buf: &mut [u8]) -> Result<()> {
        if inode.body == BODY_INLINE {
            for (at, byte) in buf.iter_mut().enumerate() {
                *byte = inode.body_area.get(offset as usize + at).copied().unwrap_or(0);
            }
            return Ok(());
        }
        let staged = if self.store.staged_total() == 0 {
            Vec::new()
        } else {
            self.store.staged_pages(ino)
        };
        let mut done = 0;
        while done < buf.len() {
            let (index, at) = place(offset + done as u64);
            let pages = (at + buf.len() - done).div_ceil(PAGE).min(ENTRIES);
            let len = (pages * PAGE - at).min(buf.len() - done);
            let mut entries = [PageEntry::HOLE; ENTRIES];
            self.see(|view| blockmap::get(view, ino, inode, index, &mut entries[..pages]))?;
            self.read_pages(ino, (index, at), &entries[..pages], &staged, &mut buf[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Reads the pages of `entries`, the first from byte `at` on.
    fn read_pages(
        &self,
        ino: u64,
        (first, at): (u64, usize),
        entries: &[PageEntry],
        staged: &[u64],
        buf: &mut [u8],
    ) -> Result<()> {
        let is_staged = |index: u64| staged.binary_search(&index).is_ok();
        let (mut page, mut at, mut done) = (0, at, 0);
        while done < buf.len() {
            let index = first + page as u64;
            let whole = (buf.len() - done) / PAGE;
            if at == 0 && whole > 0 && !is_staged(index) {
                let same = run(&entries[page..page + whole.min(entries.len() - page)]);
                let run = (1..same).find(|i| is_staged(index + *i as u64)).unwrap_or(same);
                self.read_run(
                    ino,
                    index,
                    &entries[page..page + run],
                    &mut buf[done..done + run * PAGE],
                )?;
                page += run;
                done += run * PAGE;
                continue;
            }
            let mut bytes = [0; PAGE];
            if !is_staged(index) || !self.store.staged(ino, index, &mut bytes)? {
                self.load_entry(ino, index, &entries[page], &mut bytes)?;
            }
            let len = (PAGE - at).min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&bytes[at..at + len]);
            (page, at, done) = (page + 1, 0, done + len);
        }
        Ok(())
    }

    /// Reads a run of entries of one kind whose pages follow each other.
    fn read_run(&self, ino: u64, first: u64, entries: &[PageEntry], buf: &mut [u8]) -> Result<()> {
        let Some(head) = entries.first() else { return Ok(()) };
        if !blockmap::is_written(head) {
            let (pages, _) = buf.as_chunks_mut::<PAGE>();
            for (i, page) in pages.iter_mut().enumerate() {
                self.load_entry(ino, first + i as u64, &entries[i], page)?;
            }
            return Ok(());
        }
        let read = self.store.read_data(head.page(), buf);
        // One bad page is no reason to give none of its neighbours: each is asked for by itself then.
        if let Err(error) = read
            && !error.is_device_io()
            && self.other_entry(ino, first, head)?.is_none()
        {
            return Err(error.into());
        }
        let (pages, _) = buf.as_chunks_mut::<PAGE>();
        for (i, page) in pages.iter_mut().enumerate() {
            if crc32c::of(page) != entries[i].crc.get() {
                self.load_entry(ino, first + i as u64, &entries[i], page)?;
            }
        }
        Ok(())
    }

    /// Stamps the access time if the mount and the inode want it (relatime).
    pub(crate) fn accessed(&self, ino: u64, seen: &Inode) -> Result<()> {
        let now = self.now();
        if !self.wants_access_time(seen, now) {
            return Ok(());
        }
        let _lock = self.locks.exclusive(ino);
        let stamped = self.change(|txn| {
            let mut held = inode::Held::load(txn, ino)?;
            if self.wants_access_time(&held.now, now) {
                let attrs = Attrs {
                    set: attr::ATIME,
                    atime: inode::moment(now),
                    ..Attrs::default()
                };
                txn.op(ino, Action::SetAttr { attrs })?;
                inode::set_time(&mut held.now, inode::Stamp::Access, now);
                held.put(txn)?;
            }
            Ok(())
        });
        // A read is not refused because its time cannot be kept: the pool may be full or read-only.
        if let Err(error) = stamped {
            tracing::debug!(ino, %error, "access time not kept");
        }
        Ok(())
    }
}

/// How many entries from the first on can be read at once: all written, pages following each other; or all not.
fn run(entries: &[PageEntry]) -> usize {
    let Some(head) = entries.first() else { return 0 };
    let written = blockmap::is_written(head);
    let same = |(i, e): &(usize, &PageEntry)| {
        blockmap::is_written(e) == written && (!written || e.page() == head.page() + *i as u64)
    };
    entries.iter().enumerate().take_while(same).count()
}

/// Offset of a page of a file.
pub(crate) const fn offset_of(index: u64) -> u64 {
    index.saturating_mul(PAGE_BYTES)
}
