//! fallocate(2): allocating unwritten pages, punching holes, zeroing.

use super::free_pages;
use super::page::{Under, place};
use super::{PAGE_BYTES, PAGES_A_STEP, contents_changed, note_entries, note_holes};
use crate::blockmap::{self, Budget, Want};
use crate::errors::{Error, Result, Step, refuse};
use crate::inode::{Held, has, is_fixed, kind};
use crate::volume::Volume;
use keepfs_format::PAGE;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry, UNWRITTEN};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_store::{Purpose, Txn};
use keepfs_vfs::{Errno, FallocMode, FileKind, InodeFlags};

/// Zeros over part of one page.
struct Wipe {
    index: u64,
    at: usize,
    len: usize,
    under: Option<Under>,
}

impl Volume {
    /// Allocates, punches or zeroes. Errors: `EINVAL`, `EPERM`, `EISDIR`, `ENODEV`, `EFBIG`, `ENOSPC`.
    pub(crate) fn do_fallocate(&self, ino: u64, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        let inode = self.see(|view| self.usable(view, ino))?;
        let end = crate::errors::seen(check(&inode, mode, offset, len))?;
        let grows = matches!(mode, FallocMode::Allocate | FallocMode::ZeroRange { keep_size: false });
        if grows && end > inode.size.get() {
            self.finish_trim(ino)?;
        }
        if inode.body == BODY_INLINE {
            self.to_pages(ino)?;
        }
        if matches!(mode, FallocMode::PunchHole | FallocMode::ZeroRange { .. }) {
            self.punch(ino, offset, end)?;
        }
        if mode != FallocMode::PunchHole {
            self.allocate(ino, offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES))?;
        }
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            if grows && end > file.now.size.get() {
                file.now.size.set(end);
            }
            file.step();
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)
        })
    }

    /// Makes `offset .. end` read as zeros: whole pages become holes, of others the bytes are zeroed.
    /// Called with the exclusive lock held, on a body of pages.
    pub(crate) fn punch(&self, ino: u64, offset: u64, end: u64) -> Result<()> {
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let (first, last) = (offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        let mut wipes = Vec::new();
        if first > last {
            wipes.extend(self.wipe(ino, &inode, offset, end)?);
        } else {
            wipes.extend(self.wipe(ino, &inode, offset, first * PAGE_BYTES)?);
            wipes.extend(self.wipe(ino, &inode, last * PAGE_BYTES, end)?);
        }
        if !wipes.is_empty() {
            self.change(|txn| {
                let mut file = Held::load(txn, ino)?;
                file.step();
                let version = file.version();
                for wipe in &wipes {
                    let base = wipe.under.as_ref().map(Under::base);
                    txn.stage_zero(ino, wipe.index, version, base, wipe.at, wipe.len)?;
                }
                file.put(txn)
            })?;
        }
        if first < last {
            let mut staged = true;
            while !self.change(|txn| punch_step(txn, ino, first, last, staged))? {
                staged = false;
            }
        }
        Ok(())
    }

    /// The zeros over `from .. to`, which lie in one page; none if that reads as zeros already.
    fn wipe(&self, ino: u64, inode: &Inode, from: u64, to: u64) -> Result<Option<Wipe>> {
        let (index, at) = place(from);
        if from >= to {
            return Ok(None);
        }
        let under = self.under(ino, inode, index)?;
        if under.is_none() && !self.is_staged(ino, index) {
            return Ok(None);
        }
        Ok(Some(Wipe {
            index,
            at,
            len: ((to - from) as usize).min(PAGE - at),
            under,
        }))
    }

    /// Gives every hole of pages `first .. last` an unwritten page. Called with the exclusive lock held.
    fn allocate(&self, ino: u64, first: u64, last: u64) -> Result<()> {
        self.write_out(ino, first, last)?;
        let room = self.store.figures().available(Purpose::New);
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        if last - first > room.saturating_add(inode.pages.get()) {
            return Err(Error::Store(keepfs_store::Error::NoSpace));
        }
        let mut at = first;
        while at < last {
            let inode = self.see(|view| crate::inode::live(view, ino))?;
            let Some(from) = self.next_page(ino, &inode, at, last, Want::Hole)? else {
                break;
            };
            let behind = self.next_page(ino, &inode, from, last, Want::Entry)?.unwrap_or(last);
            let count = (behind - from).min(PAGES_A_STEP);
            self.allocate_step(ino, from, count as u32)?;
            at = from + count;
        }
        Ok(())
    }

    fn allocate_step(&self, ino: u64, first: u64, count: u32) -> Result<()> {
        let fresh = self.reserve(count, Purpose::New)?;
        let pages = fresh
            .runs()
            .iter()
            .flat_map(|run| run.start..run.start + u64::from(run.count));
        let pages: Vec<u64> = pages.take(count as usize).collect();
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            file.step();
            let version = file.version();
            let new: Vec<PageEntry> = pages
                .iter()
                .map(|page| PageEntry::new(*page, UNWRITTEN, 0, version))
                .collect();
            let mut old = vec![PageEntry::HOLE; new.len()];
            blockmap::set(txn, &mut file, first, &new, &mut old)?;
            for run in fresh.runs() {
                txn.use_pages(*run)?;
            }
            note_entries(txn, &file, first, &new);
            file.put(txn)
        })?;
        fresh.keep();
        Ok(())
    }
}

/// Frees part of a range; the first step also voids what is staged in it.
fn punch_step(txn: &mut Txn<'_>, ino: u64, first: u64, last: u64, staged: bool) -> Step<bool> {
    let mut file = Held::load(txn, ino)?;
    file.step();
    let mut freed = Vec::new();
    let done = blockmap::clear(txn, &mut file, first, last, Budget::default(), &mut freed)?;
    if staged {
        note_holes(txn, &file, first, last - first);
    }
    free_pages(txn, &file, &freed)?;
    file.put(txn)?;
    Ok(done)
}

/// The end of the range, if it may be done. The order of checks is Linux's.
fn check(inode: &Inode, mode: FallocMode, offset: u64, len: u64) -> Step<u64> {
    if len == 0 {
        return refuse(Errno::EINVAL);
    }
    let destroys = matches!(mode, FallocMode::PunchHole | FallocMode::ZeroRange { .. });
    if has(inode, InodeFlags::IMMUTABLE) || destroys && is_fixed(inode) {
        return refuse(Errno::EPERM);
    }
    match kind(inode) {
        FileKind::File => {}
        FileKind::Dir => return refuse(Errno::EISDIR),
        _ => return refuse(Errno::ENODEV),
    }
    match offset.checked_add(len) {
        Some(end) if end <= FILE_SIZE_MAX => Ok(end),
        _ => refuse(Errno::EFBIG),
    }
}
