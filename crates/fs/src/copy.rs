//! copy_file_range: whole pages are shared by reference where both offsets are aligned alike, others are copied.

use crate::blockmap::{self, is_written};
use crate::data::{PAGE_BYTES, PAGES_A_STEP, contents_changed, note_entries, note_holes, regular};
use crate::errors::{Error, Result, Step, refuse, seen};
use crate::inode::{Held, has};
use crate::volume::Volume;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::plog::Run;
use keepfs_store::Txn;
use keepfs_vfs::{Errno, InodeFlags, SeekWhence, WriteHow};

/// A file and a byte offset in it.
type Place = (u64, u64);

impl Volume {
    /// Copies; returns how much. Errors: `EISDIR`, `EINVAL`, `EPERM`, `EOVERFLOW`, `EFBIG`, `ENOSPC`.
    pub(crate) fn do_copy(&self, from: Place, to: Place, len: u64) -> Result<u64> {
        let locks = self.locks.all([from.0, to.0]);
        let source = self.see(|view| self.usable(view, from.0))?;
        let target = self.see(|view| self.usable(view, to.0))?;
        let count = seen(check(&source, &target, from, to, len))?;
        if count == 0 {
            return Ok(0);
        }
        if to.1 + count > target.size.get() {
            self.finish_trim(to.0)?;
        }
        let aligned =
            from.1.is_multiple_of(PAGE_BYTES) && to.1.is_multiple_of(PAGE_BYTES) && source.body != BODY_INLINE;
        let ends = from.1 + count == source.size.get() && to.1 + count >= target.size.get();
        let shared = if !aligned {
            0
        } else if ends {
            count
        } else {
            count / PAGE_BYTES * PAGE_BYTES
        };
        if shared > 0 {
            self.share(from, to, shared)?;
        }
        if shared < count {
            self.copy_bytes((from.0, from.1 + shared), (to.0, to.1 + shared), count - shared)?;
        }
        drop(locks);
        self.accessed(from.0, &source)?;
        self.staged_more();
        Ok(count)
    }

    /// Makes whole pages of `to` be those of `from`. The last one may be cut by both sizes.
    fn share(&self, from: Place, to: Place, len: u64) -> Result<()> {
        let (first, target, pages) = (from.1 / PAGE_BYTES, to.1 / PAGE_BYTES, len.div_ceil(PAGE_BYTES));
        self.write_out(from.0, first, first + pages)?;
        if self.see(|view| crate::inode::live(view, to.0))?.body == BODY_INLINE {
            self.to_pages(to.0)?;
        }
        let mut done = 0;
        while done < pages {
            let count = (pages - done).min(PAGES_A_STEP);
            let end = to.1 + ((done + count) * PAGE_BYTES).min(len);
            if !self.share_step((from.0, first + done), (to.0, target + done), count, end)? {
                let at = done * PAGE_BYTES;
                let bytes = (count * PAGE_BYTES).min(len - at);
                self.copy_bytes((from.0, from.1 + at), (to.0, to.1 + at), bytes)?;
            }
            done += count;
        }
        Ok(())
    }

    /// One transaction of sharing; `false`, and nothing is done, if a page has too many references.
    fn share_step(&self, from: Place, to: Place, count: u64, end: u64) -> Result<bool> {
        let now = self.now();
        let source = self.see(|view| crate::inode::live(view, from.0))?;
        let mut entries = vec![PageEntry::HOLE; count as usize];
        self.see(|view| blockmap::get(view, from.0, &source, from.1, &mut entries))?;
        if entries
            .iter()
            .any(|e| !e.is_hole() && !is_written(e) && !blockmap::is_unwritten(e))
        {
            return Err(Error::BadPage {
                ino: from.0,
                index: from.1,
            });
        }
        let shared = self.change(|txn| {
            let mut file = Held::load(txn, to.0)?;
            file.step();
            file.now.size.set(file.now.size.get().max(end));
            take_entries(txn, &mut file, to.1, &entries)?;
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)
        });
        match shared {
            Ok(()) => Ok(true),
            Err(error) if error.errno() == Some(Errno::EMLINK) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Copies bytes through memory; what was not written stays a hole where it covers whole pages of the target.
    fn copy_bytes(&self, from: Place, to: Place, len: u64) -> Result<()> {
        self.make_hole(to, len)?;
        let end = from.1 + len;
        let mut at = from.1;
        loop {
            // Read again each time: the target may be the same file, whose map changes as it is written.
            let source = self.see(|view| crate::inode::live(view, from.0))?;
            let Some((start, stop)) = self.next_written(from.0, &source, at, end)? else {
                break;
            };
            let mut bytes = vec![0; (stop - start) as usize];
            self.read_range(from.0, &source, start, &mut bytes)?;
            let written = self.write_locked(to.0, to.1 + (start - from.1), &bytes, WriteHow::default())?;
            if written < bytes.len() {
                return Err(Error::Store(keepfs_store::Error::NoSpace));
            }
            at = stop;
        }
        let now = self.now();
        self.change(|txn| {
            let mut file = Held::load(txn, to.0)?;
            file.now.size.set(file.now.size.get().max(to.1 + len));
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)
        })
    }

    /// The next bytes from `at` on, below `end`, that were written; bounded.
    fn next_written(&self, ino: u64, inode: &Inode, at: u64, end: u64) -> Result<Option<(u64, u64)>> {
        let mut at = at;
        while at < end {
            let Some(data) = self.seek_locked(ino, inode, at, SeekWhence::Data)? else {
                return Ok(None);
            };
            let first = data / PAGE_BYTES;
            let staged = self.store.staged_pages(ino);
            let mut entries = [PageEntry::HOLE; PAGES_A_STEP as usize];
            self.see(|view| blockmap::get(view, ino, inode, first, &mut entries))?;
            let is_written = |i: usize| {
                let entry = &entries[i];
                inode.body == BODY_INLINE
                    || !entry.is_hole() && !blockmap::is_unwritten(entry)
                    || staged.binary_search(&(first + i as u64)).is_ok()
            };
            let offset = |i: usize| (first + i as u64) * PAGE_BYTES;
            if let Some(from) = (0..entries.len()).find(|i| is_written(*i)) {
                let to = (from..entries.len()).find(|i| !is_written(*i)).unwrap_or(entries.len());
                let (start, stop) = (offset(from).max(at), offset(to).min(end));
                return Ok((start < stop).then_some((start, stop)));
            }
            at = offset(entries.len());
        }
        Ok(None)
    }

    /// Makes the range of the target read as zeros before data is copied into it.
    fn make_hole(&self, to: Place, len: u64) -> Result<()> {
        let target = self.see(|view| crate::inode::live(view, to.0))?;
        if target.body == BODY_INLINE {
            self.to_pages(to.0)?;
        }
        self.punch(to.0, to.1, to.1 + len)
    }
}

/// Points entries of the target at the source's pages, one reference more each. Errors: `EMLINK` if a count is full.
fn take_entries(txn: &mut Txn<'_>, file: &mut Held, first: u64, entries: &[PageEntry]) -> Step<()> {
    let version = file.version();
    let own = |e: &PageEntry| {
        if is_written(e) {
            PageEntry::new(e.page(), e.flags(), e.crc.get(), version)
        } else {
            PageEntry::HOLE
        }
    };
    let new: Vec<PageEntry> = entries.iter().map(own).collect();
    let mut old = vec![PageEntry::HOLE; new.len()];
    blockmap::set(txn, file, first, &new, &mut old)?;
    for entry in new.iter().filter(|e| !e.is_hole()) {
        if !txn.share_pages(Run {
            start: entry.page(),
            count: 1,
        })? {
            return refuse(Errno::EMLINK);
        }
    }
    for was in old.iter().filter(|e| blockmap::has_page(e)) {
        txn.free_page(was.page())?;
    }
    if new.iter().all(PageEntry::is_hole) {
        note_holes(txn, file, first, new.len() as u64);
    } else {
        note_entries(txn, file, first, &new);
    }
    Ok(())
}

/// How much may be copied. The order of checks is Linux's.
fn check(source: &Inode, target: &Inode, from: Place, to: Place, len: u64) -> Step<u64> {
    regular(source)?;
    regular(target)?;
    if has(target, InodeFlags::IMMUTABLE) {
        return refuse(Errno::EPERM);
    }
    if from.1.checked_add(len).is_none() || to.1.checked_add(len).is_none() {
        return refuse(Errno::EOVERFLOW);
    }
    let count = len.min(source.size.get().saturating_sub(from.1));
    if count == 0 {
        return Ok(0);
    }
    let count = match FILE_SIZE_MAX.saturating_sub(to.1) {
        0 => return refuse(Errno::EFBIG),
        room => count.min(room),
    };
    if from.0 == to.0 && to.1 < from.1 + count && from.1 < to.1 + count {
        return refuse(Errno::EINVAL);
    }
    Ok(count)
}
