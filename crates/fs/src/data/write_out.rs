//! Writing staged pages to pages of their own: by age, by number, before something needs them mapped.

use super::PAGES_A_STEP;
use super::place::{Fresh, name_lost, name_pages};
use crate::Volume;
use crate::blockmap;
use crate::errors::{Error, Result, fitting};
use crate::inode::Held;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_store::{Error as StoreError, Near, Purpose};
use keepfs_vfs::Errno;

/// Inodes looked at in one round.
const ROUND: usize = 512;
/// Inodes written out in one transaction.
const TOGETHER: usize = 32;
/// Most pages of an inode that is written out with others.
const JOB_PAGES: usize = 8;

/// Neighbouring staged pages of an inode whose lock is held.
struct Job {
    ino: u64,
    first: u64,
    count: usize,
}

impl Volume {
    /// Writes out the staged pages of `ino` within `from .. to`. Called with the exclusive lock held.
    pub(crate) fn write_out(&self, ino: u64, from: u64, to: u64) -> Result<()> {
        let staged = self.store.staged_pages(ino);
        let mut wanted: Vec<u64> = staged.into_iter().filter(|index| (from..to).contains(index)).collect();
        let mut at = 0;
        while at < wanted.len() {
            let neighbours = wanted[at..]
                .iter()
                .enumerate()
                .take_while(|(i, p)| **p == wanted[at] + *i as u64);
            let most = neighbours.count() as u64;
            let run = fitting(most.min(PAGES_A_STEP), |count| {
                self.write_out_run(ino, wanted[at], count as usize)
            });
            if let Err(Error::Store(StoreError::Lost { index, .. })) = run {
                self.write_out_lost(ino, index)?;
                wanted.retain(|other| *other != index);
                continue;
            }
            at += run? as usize;
        }
        Ok(())
    }

    fn write_out_run(&self, ino: u64, first: u64, count: usize) -> Result<()> {
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let mut bytes = vec![0; count * PAGE];
        let (pages, _) = bytes.as_chunks_mut::<PAGE>();
        for (i, page) in pages.iter_mut().enumerate() {
            if !self.store.staged(ino, first + i as u64, page)? {
                return Ok(());
            }
        }
        let placed = self.put_on_device(ino, &inode, first, &[&bytes]);
        let placed = placed.inspect_err(|error| self.lost.note_refusal(error))?;
        self.change(|txn| {
            txn.claim();
            let mut file = Held::load(txn, ino)?;
            placed.name(txn, &mut file)?;
            file.put(txn)
        })?;
        placed.keep();
        self.lost.note_success();
        Ok(())
    }

    /// A staged page that is lost gets the entry that says so (S-7.8).
    fn write_out_lost(&self, ino: u64, index: u64) -> Result<()> {
        self.change(|txn| {
            txn.claim();
            let mut file = Held::load(txn, ino)?;
            name_lost(txn, &mut file, index, 1)?;
            file.put(txn)
        })?;
        self.remember_lost(ino, index, 1)
    }

    /// Writes out the staged pages of several inodes, those left out that somebody is at. Small ones go together: one
    /// reservation, one write, one transaction. What the device refuses, and what belongs to a file whose metadata cannot be read
    /// (S-15.17), stays staged; tells of how many the latter is.
    pub(crate) fn write_out_inodes(&self, inos: &[u64]) -> Result<usize> {
        let mut unreadable = 0;
        for inos in inos.chunks(TOGETHER) {
            let (mut locks, mut jobs) = (Vec::new(), Vec::new());
            for ino in inos {
                let Some(lock) = self.locks.try_exclusive(*ino) else {
                    continue;
                };
                match self.write_out_job(*ino) {
                    Ok(Some(job)) => {
                        locks.push(lock);
                        jobs.push(job);
                    }
                    Ok(None) => {}
                    Err(error) if error.is_refused() => log_write_out(&error),
                    Err(error) if error.is_of_one() => {
                        log_write_out(&error);
                        unreadable += 1;
                    }
                    Err(error) if error.errno() == Some(Errno::ESTALE) || error.is_no_space() => {}
                    Err(error) => return Err(error),
                }
            }
            match self.write_out_together(&jobs) {
                Err(error) if error.is_too_large() || error.is_of_one() || error.is_lost() => {
                    for job in &jobs {
                        match self.write_out(job.ino, 0, u64::MAX) {
                            Err(error) if error.is_of_one() => {
                                log_write_out(&error);
                                unreadable += 1;
                            }
                            other => other?,
                        }
                    }
                }
                Err(error) if error.is_refused() => log_write_out(&error),
                Err(error) if error.is_no_space() => {}
                other => other?,
            }
        }
        Ok(unreadable)
    }

    /// The pages of an inode that can be written with others'; `None` if there are none, or they were written alone.
    fn write_out_job(&self, ino: u64) -> Result<Option<Job>> {
        let staged = self.store.staged_pages(ino);
        let (Some(first), Some(last)) = (staged.first(), staged.last()) else {
            return Ok(None);
        };
        let count = staged.len();
        let inode = self.see(|view| crate::inode::live(view, ino))?;
        let mut old = vec![PageEntry::HOLE; count.min(JOB_PAGES)];
        self.see(|view| blockmap::get(view, ino, &inode, *first, &mut old))?;
        if count > JOB_PAGES || last - first + 1 != count as u64 || old.iter().any(blockmap::is_unwritten) {
            self.write_out(ino, 0, u64::MAX)?;
            return Ok(None);
        }
        Ok(Some(Job {
            ino,
            first: *first,
            count,
        }))
    }

    fn write_out_together(&self, jobs: &[Job]) -> Result<()> {
        let total: usize = jobs.iter().map(|job| job.count).sum();
        if total == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; total * PAGE];
        let mut pages = bytes.as_chunks_mut::<PAGE>().0.iter_mut();
        for job in jobs {
            for (index, page) in (job.first..).zip(pages.by_ref().take(job.count)) {
                if !self.store.staged(job.ino, index, page)? {
                    return Ok(());
                }
            }
        }
        let mut fresh = Fresh::default();
        let mut places = fresh.add(self.reserve(total as u32, Purpose::Claimed, Near::Thread)?);
        let crcs = self.write_to(&mut places, &[&bytes], Purpose::Claimed, &mut fresh);
        let crcs = crcs.inspect_err(|error| self.lost.note_refusal(error))?;
        self.change(|txn| {
            txn.claim();
            fresh.allocate(txn)?;
            let mut at = 0;
            for job in jobs {
                let mut file = Held::load(txn, job.ino)?;
                let part = at..at + job.count;
                name_pages(txn, &mut file, job.first, &places[part.clone()], &crcs[part])?;
                file.put(txn)?;
                at += job.count;
            }
            Ok(())
        })?;
        fresh.keep();
        self.lost.note_success();
        Ok(())
    }

    /// Writes out the oldest staged pages while more than `most` are staged.
    pub(crate) fn write_out_down_to(&self, most: usize) -> Result<()> {
        let mut unreadable = 0;
        loop {
            // Looked at once: others write out meanwhile.
            let surplus = self.store.staged_weight().saturating_sub(most);
            if surplus == 0 {
                break;
            }
            let before = self.store.staged_total();
            // Of small pages it takes four to come down by one.
            let inos = self.store.staged_inodes((4 * surplus).min(ROUND) + unreadable);
            let stay = self.write_out_inodes(&inos)?;
            // Those may be the oldest of all: others are behind them.
            if self.store.staged_total() >= before && stay <= unreadable {
                break;
            }
            unreadable = stay;
        }
        Ok(())
    }

    /// Before a page is staged: no more than the log can carry (S-10.3, S-14.7). Errors: [`Error::Refused`] if the device
    /// refuses what was staged before.
    pub(crate) fn room_to_stage(&self) -> Result<()> {
        let most = 2 * self.staged_pages_max;
        if self.store.staged_weight() > most {
            self.write_out_down_to(most / 4)?;
            if let Some(error) = self.lost.refusal().filter(|_| self.store.staged_weight() > most) {
                return Err(Error::Refused(error));
            }
        }
        Ok(())
    }

    /// Called after a write, without locks: keeps the number of staged pages in bounds.
    pub(crate) fn staged_more(&self) {
        let staged = self.store.staged_weight();
        if staged <= self.staged_pages_max {
            return;
        }
        if self.background && staged <= 2 * self.staged_pages_max {
            self.worker.wake();
            return;
        }
        if let Err(error) = self.write_out_down_to(self.staged_pages_max / 2) {
            log_write_out(&error);
        }
    }
}

/// Staged data stays durable by the log, so a failed write-out loses nothing; it is told and tried again.
pub(crate) fn log_write_out(error: &Error) {
    tracing::warn!(%error, "staged data could not be written out; it stays in the log");
}
