//! fallocate(2): allocating unwritten pages, punching holes, zeroing.

use super::{PAGE_BYTES, PAGES_A_STEP, contents_changed, hole, note_entries, splice};
use crate::blockmap::{self, Want};
use crate::errors::{Error, Result, Step, fitting, refuse};
use crate::inode::{Held, has, is_fixed, kind};
use crate::volume::Volume;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry, UNWRITTEN};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::oplog::Action;
use keepfs_format::plog::Run;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Near, Purpose};
use keepfs_vfs::{Errno, FallocMode, FileKind, InodeFlags};

impl Volume {
    /// Allocates, punches or zeroes. Errors: `EINVAL`, `EPERM`, `EISDIR`, `ENODEV`, `EFBIG`, `ENOSPC`.
    pub(crate) fn do_fallocate(&self, ino: u64, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        let inode = self.see(|view| self.usable(view, ino))?;
        let end = crate::errors::seen(check(&inode, mode, offset, len))?;
        let grows = matches!(mode, FallocMode::Allocate | FallocMode::ZeroRange { keep_size: false });
        self.finish_cut(ino)?;
        let inode = self.without_hole(ino, inode)?;
        if inode.body == BODY_INLINE {
            self.to_pages(ino)?;
        }
        let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let destroys = matches!(mode, FallocMode::PunchHole | FallocMode::ZeroRange { .. });
        if mode != FallocMode::PunchHole {
            self.check_room(&inode, last - first)?;
        }
        if !destroys {
            self.allocate(ino, first, last)?;
        }
        let acts = if destroys {
            let inode = self.see(|view| crate::inode::live(view, ino))?;
            self.hole_acts(ino, &inode, offset, end)?
        } else {
            Vec::new()
        };
        let done = self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            let told = if grows { end } else { 0 };
            txn.op(ino, Action::Fallocate { end: told })?;
            file.step();
            if grows && end > file.now.size.get() {
                file.now.size.set(end);
            }
            let done = splice(txn, &mut file, &acts)?;
            if !done {
                hole::begin(txn, &mut file, offset.div_ceil(PAGE_BYTES), end / PAGE_BYTES)?;
            }
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)?;
            Ok(done)
        })?;
        if !done {
            self.finish_hole(ino, false)?;
        }
        if destroys && mode != FallocMode::PunchHole {
            self.allocate(ino, first, last)?;
        }
        Ok(())
    }

    /// Errors: `ENOSPC` if `pages` more cannot be had, so that a hopeless allocation fails before it takes all.
    fn check_room(&self, inode: &Inode, pages: u64) -> Result<()> {
        let room = self.store.figures().obtainable(Purpose::New);
        let room = room.saturating_add(self.reclaimable()?);
        if pages > room.saturating_add(inode.pages.get()) {
            return Err(Error::Store(keepfs_store::Error::NoSpace));
        }
        Ok(())
    }

    /// Gives every hole of pages `first .. last` an unwritten page. Called with the exclusive lock held.
    fn allocate(&self, ino: u64, first: u64, last: u64) -> Result<()> {
        self.write_out(ino, first, last)?;
        let mut at = first;
        while at < last {
            let inode = self.see(|view| crate::inode::live(view, ino))?;
            let Some(from) = self.next_page(ino, &inode, at, last, Want::Hole)? else {
                break;
            };
            let behind = self.next_page(ino, &inode, from, last, Want::Entry)?.unwrap_or(last);
            let most = (behind - from).min(PAGES_A_STEP);
            at = from + fitting(most, |count| self.allocate_step(ino, from, count as u32))?;
        }
        Ok(())
    }

    fn allocate_step(&self, ino: u64, first: u64, count: u32) -> Result<()> {
        let fresh = self.reserve(count, Purpose::New, Near::Thread)?;
        let beyond = match planted::has(Logic::BeyondEnd) {
            true => self.store.figures().pages,
            false => 0,
        };
        let runs = || {
            fresh.runs().iter().map(move |run| Run {
                start: run.start + beyond,
                ..*run
            })
        };
        let pages = runs().flat_map(|run| run.start..run.start + u64::from(run.count));
        let pages: Vec<u64> = pages.take(count as usize).collect();
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            txn.op(ino, Action::Revise {})?;
            file.step();
            let version = file.version();
            let new: Vec<PageEntry> = pages
                .iter()
                .map(|page| PageEntry::new(*page, UNWRITTEN, 0, version))
                .collect();
            let mut old = vec![PageEntry::HOLE; new.len()];
            blockmap::set(txn, &mut file, first, &new, &mut old)?;
            for run in runs() {
                txn.use_pages(run)?;
            }
            if !planted::has(Logic::UnwrittenNotTold) {
                note_entries(txn, &file, first, &new);
            }
            file.put(txn)
        })?;
        fresh.allocated();
        Ok(())
    }
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
