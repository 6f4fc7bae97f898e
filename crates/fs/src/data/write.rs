//! Writing: whole pages go to the device before the transaction, parts of pages are staged (X-4.3, S-8.8).

use super::page::{Under, place};
use super::place::{Placed, is_own, name_lost};
use super::{PAGE_BYTES, PAGES_A_STEP, contents_changed, regular};
use crate::Volume;
use crate::blockmap;
use crate::errors::{Error, Result, Step, refuse};
use crate::inode::{Held, Stamp, has, moment, set_time, time};
use keepfs_format::PAGE;
use keepfs_format::blockmap::{FILE_SIZE_MAX, PageEntry};
use keepfs_format::inode::{BODY, BODY_INLINE, BODY_NONE, Inode};
use keepfs_format::oplog::{Action, Attrs, attr};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Alone, Purpose, Txn};
use keepfs_vfs::{Errno, InodeFlags, Time, WriteHow};

/// Bytes of a page from which rewriting it whole costs less than logging the part (MinL2R's rule: half a page).
const WHOLE_FROM: usize = PAGE / 2;

/// How often a write to pages that the file has tries to find others. It is alone then, so one may come in between that
/// began before it was.
pub(super) const OVERWRITING_TRIES: u32 = 32;

/// Part of a page that is staged.
struct Part<'a> {
    index: u64,
    at: usize,
    bytes: &'a [u8],
    under: Option<Under>,
}

/// What a step of a write does, prepared outside the transaction.
#[derive(Default)]
struct Plan<'a> {
    parts: Vec<Part<'a>>,
    placed: Option<Placed<'a>>,
    /// First and number of pages that the device refused, all of them acknowledged before (S-7.6).
    lost: Option<(u64, u64)>,
    /// The inline bytes must be staged, because page 0 is not rewritten whole.
    carry: bool,
}

impl Plan<'_> {
    /// Every page that `offset .. end` touches is lost.
    fn lost(inode: &Inode, offset: u64, end: u64) -> Self {
        let (first, _) = place(offset);
        Plan {
            lost: Some((first, end.div_ceil(PAGE_BYTES) - first)),
            carry: inode.body == BODY_INLINE && inode.size.get() > 0 && first > 0,
            ..Plan::default()
        }
    }
}

impl Volume {
    /// Writes; returns how much. Errors: `EPERM`, `EFBIG`, `ENOSPC` if nothing could be written.
    pub(crate) fn do_write(&self, ino: u64, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        let done = {
            let _lock = self.settled(ino);
            self.write_locked(ino, offset, data, how)?
        };
        self.staged_more();
        Ok(done)
    }

    /// Writes with the lock of [`Volume::settled`] held.
    pub(crate) fn write_locked(&self, ino: u64, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        let now = self.now();
        let inode = self.see(|view| self.usable(view, ino))?;
        let (offset, count) = crate::errors::seen(check(&inode, offset, data.len(), how))?;
        if count == 0 {
            return Ok(0);
        }
        let cut = offset + count as u64 > inode.size.get() && self.finish_cut(ino)?;
        let inode = self.without_hole(ino, inode)?;
        // The inode as it is now, for the first step.
        let mut known = Some(&inode).filter(|_| !cut);
        let (mut done, mut lost) = (0, None);
        let mut alone = self.store.overwrite_in_turn();
        while done < count {
            let at = offset + done as u64;
            let mut len = step_len(at, count - done);
            let mut step = self.write_step((ino, known.take()), at, &data[done..done + len], how, now);
            while len > 1 && matches!(&step, Err(error) if error.is_too_large()) {
                // The old pages are scattered over more metablocks than one transaction may touch (decision 0401).
                len = half(at, len);
                step = self.write_step((ino, None), at, &data[done..done + len], how, now);
            }
            let (mut short, mut tried) = (false, 0);
            while matches!(&step, Err(error) if error.is_no_space()) {
                // The pool is full: what fits is written, and told as a short count. On the way a checkpoint may have taken
                // some of what there was; then less fits. What overwrites does so alone (S-20.5).
                let overwrites = self.has_place(ino, at)?;
                if overwrites {
                    self.be_alone(&mut alone)?;
                }
                let room = self.fits(ino, at, len)?;
                let most = if overwrites {
                    OVERWRITING_TRIES
                } else {
                    u32::from(room > 0)
                };
                if (1..len).contains(&room) {
                    (len, short) = (room, true);
                } else if tried < most {
                    tried += 1;
                } else {
                    break;
                }
                step = self.write_step((ino, None), at, &data[done..done + len], how, now);
            }
            short &= !how.writeback;
            match step {
                Ok(page) => {
                    lost = lost.or(page);
                    done += len;
                }
                // The kernel does not look at the count of what it writes back: less than all is an error, or fsync(2) would succeed.
                Err(error) if error.is_no_space() && done > 0 && !how.writeback => break,
                Err(error) => return Err(error),
            }
            if short {
                break;
            }
        }
        match lost {
            Some(index) => Err(Error::BadPage { ino, index }),
            None => Ok(done),
        }
    }

    /// Nothing was found to overwrite with, and nothing is reserved: alone from here on, with all that others gave back.
    pub(super) fn be_alone<'v>(&'v self, alone: &mut Option<Alone<'v>>) -> Result<()> {
        match alone {
            Some(alone) => alone.wait(),
            None => *alone = Some(self.store.overwrite_alone()),
        }
        match self.find_space(0) {
            // A checkpoint that has no room frees nothing more.
            Err(error) if error.is_no_space() => Ok(()),
            other => other,
        }
    }

    /// Whether the file has the page of the byte at `at` to itself, on the device or staged.
    fn has_place(&self, ino: u64, at: u64) -> Result<bool> {
        let inode = self.see(|view| self.usable(view, ino))?;
        let (index, _) = place(at);
        let entry = self.entry_at(ino, &inode, index)?;
        Ok(self.is_staged(ino, index) || self.see(|view| is_own(view, &entry))?)
    }

    /// How many of `len` bytes from `at` on find pages on a full pool. A page that is there already needs another one
    /// until the free of the old one is durable, but may use the reserve (promise C-7).
    fn fits(&self, ino: u64, at: u64, len: usize) -> Result<usize> {
        let inode = self.see(|view| self.usable(view, ino))?;
        let figures = self.store.figures();
        let (mut new, mut all) = (figures.available(Purpose::New), figures.available(Purpose::Claimed));
        let (first, within) = place(at);
        let mut entries = vec![PageEntry::HOLE; (within + len).div_ceil(PAGE)];
        self.see(|view| blockmap::get(view, ino, &inode, first, &mut entries))?;
        let mut fitting = 0;
        for (index, entry) in (first..).zip(&entries) {
            if !blockmap::is_unwritten(entry) {
                let is_new = !self.is_staged(ino, index) && !self.see(|view| is_own(view, entry))?;
                if all == 0 || is_new && new == 0 {
                    break;
                }
                (all, new) = (all - 1, new - u64::from(is_new));
            }
            fitting += PAGE;
        }
        Ok(fitting.saturating_sub(within).min(len))
    }

    /// One transaction of a write; tells the first page of it that is lost, if the data was acknowledged before (what
    /// the kernel writes back) and the device takes it nowhere. With the number comes the inode as it is now, if it is known.
    fn write_step(
        &self,
        (ino, known): (u64, Option<&Inode>),
        offset: u64,
        data: &[u8],
        how: WriteHow,
        now: Time,
    ) -> Result<Option<u64>> {
        let seen;
        let inode = match known {
            Some(inode) => inode,
            None => {
                seen = self.see(|view| self.usable(view, ino))?;
                &seen
            }
        };
        let end = offset + data.len() as u64;
        let plan = match self.plan(ino, inode, offset, data) {
            Err(error) if error.is_refused() && how.writeback => {
                tracing::error!(ino, offset, len = data.len(), %error, "acknowledged data is lost");
                Some(Plan::lost(inode, offset, end))
            }
            other => other?,
        };
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            let (mtime, ctime) = (time(&file.now, Stamp::Modify), time(&file.now, Stamp::Change));
            let write = Action::Write {
                offset,
                len: data.len() as u64,
                bytes: if plan.is_none() { data } else { &[] },
            };
            txn.op(ino, write)?;
            if !planted::has(Logic::VersionKept) {
                file.step();
            }
            let before = file.now.size;
            let size = file.now.size.get().max(end);
            match &plan {
                None => file.now.body_area[offset as usize..end as usize].copy_from_slice(data),
                Some(plan) => apply(txn, &mut file, plan, size)?,
            }
            file.now.size.set(size);
            if planted::has(Logic::SizeKept) {
                file.now.size = before;
            }
            contents_changed(txn, &mut file, how.kill_suidgid, now)?;
            if how.keep_times {
                let attrs = Attrs {
                    set: attr::MTIME | attr::CTIME,
                    mtime: moment(mtime),
                    ctime: moment(ctime),
                    ..Attrs::default()
                };
                txn.op(ino, Action::SetAttr { attrs })?;
                set_time(&mut file.now, Stamp::Modify, mtime);
                set_time(&mut file.now, Stamp::Change, ctime);
            }
            file.put(txn)
        })?;
        let Some(plan) = plan else { return Ok(None) };
        if let Some(placed) = plan.placed {
            placed.keep();
        }
        if let Some((first, count)) = plan.lost {
            self.remember_lost(ino, first, count)?;
        }
        Ok(plan.lost.map(|(first, _)| first))
    }

    /// Decides what is staged and puts the rest on the device; `None` if the bytes stay in the inode (S-5.3).
    fn plan<'a>(&'a self, ino: u64, inode: &Inode, offset: u64, data: &'a [u8]) -> Result<Option<Plan<'a>>> {
        let end = offset + data.len() as u64;
        if inode.body == BODY_INLINE && end <= BODY as u64 {
            return Ok(None);
        }
        let mut plan = Plan {
            carry: inode.body == BODY_INLINE && inode.size.get() > 0,
            ..Plan::default()
        };
        let (first, at) = place(offset);
        let head = if at == 0 && data.len() >= PAGE {
            0
        } else {
            data.len().min(PAGE - at)
        };
        let tail = (data.len() - head) % PAGE;
        let (head, rest) = data.split_at(head);
        let (whole, tail) = rest.split_at(rest.len() - tail);
        let behind = first + u64::from(!head.is_empty());
        let head_page = self.part(ino, inode, (first, at), head, &mut plan)?;
        let tail_page = self.part(ino, inode, (behind + (whole.len() / PAGE) as u64, 0), tail, &mut plan)?;
        let start = if head_page.is_some() { first } else { behind };
        let parts: Vec<&[u8]> = [
            head_page.as_ref().map(|p| &p[..]),
            Some(whole),
            tail_page.as_ref().map(|p| &p[..]),
        ]
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
        if !parts.is_empty() {
            if start == 0 {
                plan.carry = false;
            }
            plan.placed = Some(self.put_on_device(ino, inode, start, &parts)?);
        }
        Ok(Some(plan))
    }

    /// A part of a page: staged, or given back as the whole new page if writing that costs less.
    fn part<'a>(
        &self,
        ino: u64,
        inode: &Inode,
        (index, at): (u64, usize),
        bytes: &'a [u8],
        plan: &mut Plan<'a>,
    ) -> Result<Option<Box<[u8; PAGE]>>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let fills =
            at + bytes.len() == PAGE && self.is_staged(ino, index) && self.entry_at(ino, inode, index)?.is_hole();
        if bytes.len() >= WHOLE_FROM || fills {
            let mut page = Box::new([0; PAGE]);
            self.load_page(ino, inode, index, &mut page)?;
            page[at..at + bytes.len()].copy_from_slice(bytes);
            return Ok(Some(page));
        }
        self.room_to_stage()?;
        let under = self.under(ino, inode, index)?;
        plan.parts.push(Part {
            index,
            at,
            bytes,
            under,
        });
        Ok(None)
    }
}

/// Where and how much may be written. Errors: `EISDIR`, `EINVAL`, `EPERM`, `EFBIG`.
fn check(inode: &Inode, offset: u64, len: usize, how: WriteHow) -> Step<(u64, usize)> {
    regular(inode)?;
    if has(inode, InodeFlags::IMMUTABLE) && !how.writeback {
        return refuse(Errno::EPERM);
    }
    let offset = if how.append { inode.size.get() } else { offset };
    if how.keep_old && has(inode, InodeFlags::APPEND) && offset < inode.size.get() {
        return refuse(Errno::EPERM);
    }
    match FILE_SIZE_MAX.saturating_sub(offset) {
        0 if len > 0 => refuse(Errno::EFBIG),
        room => Ok((offset, room.min(len as u64) as usize)),
    }
}

/// Bytes of the next step. What the kernel sends in one call, 1 MiB from any offset, is one step, so that a crash
/// shows all of it or nothing (promise C-1, S-20.16, S-20.24).
fn step_len(at: u64, left: usize) -> usize {
    let unaligned = u64::from(!at.is_multiple_of(PAGE_BYTES));
    let most = (PAGES_A_STEP + unaligned) * PAGE_BYTES;
    left.min((most - at % PAGE_BYTES) as usize)
}

/// About half of a step, up to the end of a page if it has several.
fn half(at: u64, len: usize) -> usize {
    let middle = at + len as u64 / 2;
    let page = middle / PAGE_BYTES * PAGE_BYTES;
    (if page > at { page } else { middle } - at) as usize
}

/// The part of a step that runs in the transaction.
fn apply(txn: &mut Txn<'_>, file: &mut Held, plan: &Plan<'_>, size: u64) -> Step<()> {
    if file.now.body == BODY_INLINE {
        leave_inline(txn, file, plan.carry)?;
    }
    let version = file.version();
    for part in &plan.parts {
        let base = part.under.as_ref().map(Under::base);
        txn.stage(file.ino, part.index, version, base, part.at, part.bytes)?;
    }
    file.now.size.set(size);
    if let Some((first, count)) = plan.lost {
        name_lost(txn, file, first, count)?;
    }
    match &plan.placed {
        Some(placed) => placed.name(txn, file),
        None => Ok(()),
    }
}

/// The body is inline no longer; with `carry`, its bytes become staged bytes of page 0.
pub(super) fn leave_inline(txn: &mut Txn<'_>, file: &mut Held, carry: bool) -> Step<()> {
    let bytes = file.now.body_area;
    let size = (file.now.size.get() as usize).min(BODY);
    file.now.body = BODY_NONE;
    file.now.body_area = [0; BODY];
    if carry && size > 0 {
        txn.stage(file.ino, 0, file.version(), None, 0, &bytes[..size])?;
    }
    Ok(())
}

impl Volume {
    /// Makes an inline body a body of pages, its bytes staged. Called with the exclusive lock held.
    pub(crate) fn to_pages(&self, ino: u64) -> Result<()> {
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            if file.now.body == BODY_INLINE {
                txn.op(ino, Action::Unpack {})?;
                leave_inline(txn, &mut file, true)?;
            }
            file.put(txn)
        })
    }
}

#[cfg(test)]
mod tests;
