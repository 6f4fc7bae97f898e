//! copy_file_range: whole pages are shared by reference where both offsets are aligned alike, others are copied.

use crate::Volume;
use crate::blockmap;
use crate::data::{Act, PAGE_BYTES, PAGES_A_STEP, contents_changed, keep, place, regular, splice};
use crate::errors::{Error, Result, Step, fitting, refuse, seen};
use crate::inode::{self, Held, has};
use keepfs_format::PAGE;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::oplog::Action;
use keepfs_vfs::{Errno, InodeFlags, Time};

/// Most bytes of one copy; a caller that wants more asks again, as copy_file_range(2) lets it.
const COPY_MAX: u64 = PAGES_A_STEP * PAGE_BYTES;

/// A file and a byte offset in it.
type Place = (u64, u64);

impl Volume {
    /// Copies in one transaction, at most 1 MiB; returns how much. Errors: `EISDIR`, `EINVAL`, `EPERM`, `EOVERFLOW`,
    /// `EFBIG`, `ENOSPC`.
    pub(crate) fn do_copy(&self, from: Place, to: Place, len: u64) -> Result<u64> {
        let now = self.now();
        drop(self.settled(to.0));
        let locks = self.locks.all([from.0, to.0]);
        let source = self.see(|view| self.usable(view, from.0))?;
        let target = self.see(|view| self.usable(view, to.0))?;
        let count = seen(check(&source, &target, from, to, len))?;
        if count == 0 {
            return Ok(0);
        }
        if to.1 + count > target.size.get() {
            self.finish_cut(to.0)?;
        }
        let target = self.without_hole(to.0, target)?;
        if target.body == BODY_INLINE {
            self.to_pages(to.0)?;
        }
        let aligned = from.1.is_multiple_of(PAGE_BYTES) && to.1.is_multiple_of(PAGE_BYTES);
        // What takes more metablocks than one transaction may touch is a shorter copy (decision 0401).
        let count = match self.copy_some(from, to, count, aligned, now) {
            Err(error) if error.errno() == Some(Errno::EMLINK) => self.copy_some(from, to, count, false, now)?,
            other => other?,
        };
        drop(locks);
        self.accessed(from.0, &source)?;
        self.staged_more();
        Ok(count)
    }

    /// Copies as much of `count` as one transaction holds, whole pages of it if it is not all; tells how much.
    fn copy_some(&self, from: Place, to: Place, count: u64, sharing: bool, now: Time) -> Result<u64> {
        let mut done = count;
        fitting(count.div_ceil(PAGE_BYTES), |pages| {
            done = count.min(pages * PAGE_BYTES);
            self.copy_step(from, to, done, sharing, now)
        })?;
        Ok(done)
    }

    /// The transaction of a copy; pages are shared if `sharing`. Errors: `EMLINK` if a page has too many references.
    fn copy_step(&self, from: Place, to: Place, count: u64, sharing: bool, now: Time) -> Result<()> {
        let pages = count.div_ceil(PAGE_BYTES);
        if sharing {
            self.write_out(from.0, from.1 / PAGE_BYTES, from.1 / PAGE_BYTES + pages)?;
        }
        let source = self.see(|view| inode::live(view, from.0))?;
        let target = self.see(|view| inode::live(view, to.0))?;
        let ends = from.1 + count == source.size.get() && to.1 + count >= target.size.get();
        let shared = match (sharing && source.body != BODY_INLINE, ends) {
            (false, _) => 0,
            (true, true) => count,
            (true, false) => count / PAGE_BYTES * PAGE_BYTES,
        };
        let mut bytes = vec![0; (count - shared) as usize];
        self.read_range(from.0, &source, from.1 + shared, &mut bytes)?;
        let mut acts = Vec::new();
        if shared > 0 {
            acts.push(self.share_act(from, &source, to.1, shared)?);
        }
        self.byte_acts(
            (from.0, from.1 + shared),
            &source,
            (to.0, to.1 + shared),
            &target,
            &bytes,
            &mut acts,
        )?;
        self.change(|txn| {
            let mut file = Held::load(txn, to.0)?;
            let (from, end) = (from.0, to.1 + count);
            txn.op(to.0, Action::Copy { from, end })?;
            file.step();
            file.now.size.set(file.now.size.get().max(end));
            if !splice(txn, &mut file, &acts)? {
                return Err(Error::Store(keepfs_store::Error::TooLarge).into());
            }
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)
        })?;
        keep(acts);
        Ok(())
    }

    /// References to the source's pages.
    fn share_act(&self, from: Place, source: &Inode, to: u64, len: u64) -> Result<Act<'static>> {
        let mut entries = vec![PageEntry::HOLE; len.div_ceil(PAGE_BYTES) as usize];
        let index = from.1 / PAGE_BYTES;
        self.see(|view| blockmap::get(view, from.0, source, index, &mut entries))?;
        let is_lost = |e: &PageEntry| !e.is_hole() && !blockmap::has_page(e);
        if let Some(lost) = entries.iter().position(is_lost) {
            return Err(Error::BadPage {
                ino: from.0,
                index: index + lost as u64,
            });
        }
        Ok(Act::Share {
            first: to / PAGE_BYTES,
            entries,
        })
    }

    /// What puts `bytes`, read from the source, into the target: page by page data, or a hole where nothing of the
    /// source was written.
    fn byte_acts<'a>(
        &'a self,
        from: Place,
        source: &Inode,
        to: Place,
        target: &Inode,
        bytes: &'a [u8],
        acts: &mut Vec<Act<'a>>,
    ) -> Result<()> {
        let written = self.written_pages(from, source, bytes.len())?;
        let mut done = 0;
        while done < bytes.len() {
            let (index, at) = place(to.1 + done as u64);
            let kind = |done: usize, len: usize| written.touch(from.1 + done as u64, len);
            let room = (PAGE - at).min(bytes.len() - done);
            let has_data = kind(done, room);
            if room < PAGE {
                acts.extend(self.part_act(to.0, target, (index, at), &bytes[done..done + room], has_data)?);
                done += room;
                continue;
            }
            let pages = (bytes.len() - done) / PAGE;
            let same = (1..pages)
                .find(|i| kind(done + i * PAGE, PAGE) != has_data)
                .unwrap_or(pages);
            acts.push(if has_data {
                Act::Place(self.put_on_device(to.0, target, index, &[&bytes[done..done + same * PAGE]])?)
            } else {
                Act::Holes {
                    first: index,
                    count: same as u64,
                }
            });
            done += same * PAGE;
        }
        Ok(())
    }

    /// What puts part of a page into the target; nothing if both are holes.
    fn part_act<'a>(
        &self,
        ino: u64,
        target: &Inode,
        (index, at): (u64, usize),
        bytes: &'a [u8],
        has_data: bool,
    ) -> Result<Option<Act<'a>>> {
        if has_data {
            self.room_to_stage()?;
            let under = self.under(ino, target, index)?;
            return Ok(Some(Act::Stage {
                index,
                at,
                bytes,
                under,
            }));
        }
        let start = index * PAGE_BYTES + at as u64;
        self.zero_act(ino, target, start, start + bytes.len() as u64)
    }

    /// Which pages of the source were written, of those that `len` bytes touch.
    fn written_pages(&self, from: Place, source: &Inode, len: usize) -> Result<Written> {
        let first = from.1 / PAGE_BYTES;
        let count = (from.1 + len as u64).div_ceil(PAGE_BYTES).saturating_sub(first) as usize;
        if source.body == BODY_INLINE {
            return Ok(Written {
                first,
                pages: vec![true; count],
            });
        }
        let mut entries = vec![PageEntry::HOLE; count];
        self.see(|view| blockmap::get(view, from.0, source, first, &mut entries))?;
        let staged = self.store.staged_pages(from.0);
        let is_written = |(i, e): (usize, &PageEntry)| {
            !e.is_hole() && !blockmap::is_unwritten(e) || staged.binary_search(&(first + i as u64)).is_ok()
        };
        Ok(Written {
            first,
            pages: entries.iter().enumerate().map(is_written).collect(),
        })
    }
}

/// Which pages of a file were written, from page `first` on.
struct Written {
    first: u64,
    pages: Vec<bool>,
}

impl Written {
    /// Whether any page that these bytes touch was written.
    fn touch(&self, offset: u64, len: usize) -> bool {
        let page = |offset: u64| (offset / PAGE_BYTES - self.first) as usize;
        let pages = self.pages.get(page(offset)..=page(offset + len as u64 - 1));
        pages.is_some_and(|pages| pages.contains(&true))
    }
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
    Ok(count.min(COPY_MAX))
}
