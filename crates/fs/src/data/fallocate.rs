//! fallocate(2): allocating unwritten pages, punching holes, zeroing.

use super::place::is_own;
use super::splice::make_holes;
use super::write::OVERWRITING_TRIES;
use super::{PAGE_BYTES, PAGES_A_STEP, contents_changed, hole, note_entries, splice};
use crate::Volume;
use crate::blockmap::{self, Want};
use crate::errors::{Error, Result, Step, fitting, refuse};
use crate::inode::{Held, has, is_fixed, kind};
use crate::locks::Locks;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry, UNWRITTEN};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::oplog::Action;
use keepfs_format::plog::Run;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Near, Promised, Purpose};
use keepfs_vfs::{Errno, FallocMode, FileKind, InodeFlags};
use parking_lot::RwLockWriteGuard;
use std::ops::Range;

/// The exclusive lock of the file, which is given away in between (S-20.19).
type Lock<'a> = RwLockWriteGuard<'a, ()>;

impl Volume {
    /// Allocates, punches or zeroes. Errors: `EINVAL`, `EPERM`, `EISDIR`, `ENODEV`, `EFBIG`, `ENOSPC`.
    pub(crate) fn do_fallocate(&self, ino: u64, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        let mut lock = self.settled(ino);
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
        if mode != FallocMode::PunchHole {
            // Before anything is seen to change: only this may find no space (S-20.3).
            self.check_room(&inode, last - first)?;
            self.allocate(ino, (first, last), &mut lock)?;
        }
        let whole = offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES;
        let (holes, mut promised) = match mode {
            FallocMode::PunchHole => (whole, None),
            FallocMode::ZeroRange { .. } => {
                let (holes, new) = self.to_be_zeroed(ino, whole, &mut lock)?;
                let pages = holes.end.saturating_sub(holes.start);
                (holes, Some(self.promise(pages, new)?))
            }
            FallocMode::Allocate | FallocMode::KeepSize => (0..0, None),
        };
        // Somebody may have had the lock meanwhile.
        self.settle_under(ino, &mut lock);
        self.finish_cut(ino)?;
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let acts = match mode {
            FallocMode::Allocate | FallocMode::KeepSize => Vec::new(),
            _ => self.hole_acts(ino, &inode, (offset, end), holes.clone())?,
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
                hole::begin(txn, &mut file, holes.start, holes.end)?;
            }
            contents_changed(txn, &mut file, false, now)?;
            file.put(txn)?;
            Ok(done)
        })?;
        if !done {
            self.free_cut(ino, &mut lock)?;
        }
        match &mut promised {
            Some(promised) => self.take_again(ino, holes, promised, &mut lock),
            None => Ok(()),
        }
    }

    /// Of `whole` pages that all have entries, from the first to the last that may hold anything but zeros; and how many of
    /// those give no page back: lost ones (S-7.6), and those that other files have too (S-7.3).
    fn to_be_zeroed(&self, ino: u64, whole: Range<u64>, lock: &mut Lock<'_>) -> Result<(Range<u64>, u64)> {
        let (mut found, mut new, mut at) = (0..0, 0, whole.start);
        while at < whole.end {
            let mut entries = vec![PageEntry::HOLE; (whole.end - at).min(PAGES_A_STEP) as usize];
            self.see(|view| {
                let inode = crate::inode::live(view, ino)?;
                blockmap::get(view, ino, &inode, at, &mut entries)?;
                for (index, entry) in (at..).zip(&entries).filter(|(_, entry)| !blockmap::is_unwritten(entry)) {
                    let start = if found.is_empty() { index } else { found.start };
                    found = start..index + 1;
                    new += u64::from(!is_own(view, entry)?);
                }
                Ok(())
            })?;
            at += entries.len() as u64;
            Locks::give_way(lock);
        }
        Ok((found, new))
    }

    /// Room for pages that are given back and taken again, but for `new` of them.
    fn promise(&self, pages: u64, new: u64) -> Result<Promised<'_>> {
        match self.store.promise(pages, new) {
            Err(keepfs_store::Error::NoSpace) => {
                self.find_space(new)?;
                Ok(self.store.promise(pages, new)?)
            }
            other => Ok(other?),
        }
    }

    /// Errors: `ENOSPC` if `pages` more cannot be had, so that a hopeless allocation fails before it takes all.
    fn check_room(&self, inode: &Inode, pages: u64) -> Result<()> {
        let coming = self.reclaimable()?;
        let figures = self.store.figures();
        let room = figures.obtainable_with(coming.saturating_add(figures.spare), Purpose::New);
        if pages > room.saturating_add(inode.pages.get()) {
            return Err(Error::Store(keepfs_store::Error::NoSpace));
        }
        Ok(())
    }

    /// Gives every hole of pages `first .. last` an unwritten page; if there is no space for all of them, none (S-20.3).
    fn allocate(&self, ino: u64, (first, last): (u64, u64), lock: &mut Lock<'_>) -> Result<()> {
        self.write_out(ino, first, last)?;
        let mut given = Vec::new();
        let all = self.allocate_all(ino, (first, last), &mut given, lock);
        if all.as_ref().is_err_and(Error::is_no_space) {
            for run in given.into_iter().rev() {
                self.take_back(ino, run)?;
            }
        }
        all
    }

    fn allocate_all(
        &self,
        ino: u64,
        (first, last): (u64, u64),
        given: &mut Vec<(u64, u64)>,
        lock: &mut Lock<'_>,
    ) -> Result<()> {
        let mut at = first;
        while let Some((from, most)) = self.next_holes(ino, at, last)? {
            let count = fitting(most, |count| self.allocate_step(ino, from, count as u32, Purpose::New))?;
            given.push((from, count));
            at = from + count;
            Locks::give_way(lock);
        }
        Ok(())
    }

    /// The first holes of pages `at .. last`, as many as one transaction takes: the first of them, and how many.
    fn next_holes(&self, ino: u64, at: u64, last: u64) -> Result<Option<(u64, u64)>> {
        loop {
            let inode = self.see(|view| crate::inode::live(view, ino))?;
            let Some(from) = self.next_page(ino, &inode, at, last, Want::Hole)? else {
                return Ok(None);
            };
            let behind = self.next_page(ino, &inode, from, last, Want::Entry)?.unwrap_or(last);
            let most = (behind - from).min(PAGES_A_STEP);
            let is_staged = |page: &u64| (from..from + most).contains(page);
            if !self.store.staged_pages(ino).iter().any(is_staged) {
                return Ok(Some((from, most)));
            }
            // Who had the lock meanwhile has written here.
            self.write_out(ino, from, from + most)?;
        }
    }

    /// Pages that [`Volume::allocate_all`] gave are holes again, but for those that somebody wrote meanwhile.
    fn take_back(&self, ino: u64, (first, count): (u64, u64)) -> Result<()> {
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let mut entries = vec![PageEntry::HOLE; count as usize];
        self.see(|view| blockmap::get(view, ino, &inode, first, &mut entries))?;
        let pages: Vec<(u64, PageEntry)> = (first..).zip(entries).collect();
        let is_ours = |(index, entry): &(u64, PageEntry)| blockmap::is_unwritten(entry) && !self.is_staged(ino, *index);
        let runs = pages.chunk_by(|a, b| is_ours(a) == is_ours(b));
        for run in runs.filter(|run| is_ours(&run[0])) {
            let (first, count) = (run[0].0, run.len() as u64);
            while !self.change(|txn| {
                let mut file = Held::load(txn, ino)?;
                txn.op(ino, Action::Revise {})?;
                file.step();
                let done = make_holes(txn, &mut file, first, count)?;
                file.put(txn)?;
                Ok(done)
            })? {}
        }
        Ok(())
    }

    /// Gives pages that were made holes unwritten pages of those that were promised.
    fn take_again(&self, ino: u64, holes: Range<u64>, promised: &mut Promised<'_>, lock: &mut Lock<'_>) -> Result<()> {
        let mut alone = self.store.overwrite_in_turn();
        let (mut at, mut tried) = (holes.start, 0);
        while let Some((from, most)) = self.next_holes(ino, at, holes.end)? {
            let taken = fitting(most, |count| {
                self.allocate_step(ino, from, count as u32, Purpose::Claimed)
            });
            match taken {
                Ok(count) => {
                    promised.taken(count);
                    at = from + count;
                    // Who has the lock may wait to be alone.
                    if alone.is_none() {
                        Locks::give_way(lock);
                    }
                }
                // Others overwrite with them, and give back as many (S-20.5).
                Err(error) if error.is_no_space() && tried < OVERWRITING_TRIES => {
                    tried += 1;
                    self.be_alone(&mut alone)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn allocate_step(&self, ino: u64, first: u64, count: u32, purpose: Purpose) -> Result<()> {
        let fresh = self.reserve(count, purpose, Near::Thread)?;
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
            if purpose == Purpose::Claimed {
                txn.claim();
            }
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

#[cfg(test)]
mod tests;
