//! Writing staged pages to pages of their own: by age, by number, before something needs them mapped.

use super::PAGES_A_STEP;
use crate::errors::{Error, Result};
use crate::inode::Held;
use crate::volume::Volume;
use keepfs_format::PAGE;
use keepfs_vfs::Errno;

/// Inodes looked at in one round.
const ROUND: usize = 64;

impl Volume {
    /// Writes out the staged pages of `ino` within `from .. to`. Called with the exclusive lock held.
    pub(crate) fn write_out(&self, ino: u64, from: u64, to: u64) -> Result<()> {
        let staged = self.store.staged_pages(ino);
        let wanted: Vec<u64> = staged.into_iter().filter(|index| (from..to).contains(index)).collect();
        let mut at = 0;
        while at < wanted.len() {
            let neighbours = wanted[at..]
                .iter()
                .enumerate()
                .take_while(|(i, p)| **p == wanted[at] + *i as u64);
            let count = neighbours.count().min(PAGES_A_STEP as usize);
            self.write_out_run(ino, wanted[at], count)?;
            at += count;
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
        let placed = self.put_on_device(ino, &inode, first, &[&bytes])?;
        self.change(|txn| {
            let mut file = Held::load(txn, ino)?;
            placed.name(txn, &mut file)?;
            file.put(txn)
        })?;
        placed.keep();
        Ok(())
    }

    /// Writes out all staged pages of one inode, unless somebody is at it.
    pub(crate) fn write_out_inode(&self, ino: u64) -> Result<bool> {
        let Some(_lock) = self.locks.try_exclusive(ino) else {
            return Ok(false);
        };
        match self.write_out(ino, 0, u64::MAX) {
            Err(error) if error.errno() == Some(Errno::ESTALE) || error.is_no_space() => Ok(false),
            Err(error) => Err(error),
            Ok(()) => Ok(true),
        }
    }

    /// Writes out the oldest staged pages while more than `most` are staged.
    pub(crate) fn write_out_down_to(&self, most: usize) -> Result<()> {
        while self.store.staged_total() > most {
            let before = self.store.staged_total();
            for ino in self.store.staged_inodes(ROUND) {
                self.write_out_inode(ino)?;
                if self.store.staged_total() <= most {
                    return Ok(());
                }
            }
            if self.store.staged_total() >= before {
                break;
            }
        }
        Ok(())
    }

    /// Called after a write, without locks: keeps the number of staged pages in bounds.
    pub(crate) fn staged_more(&self) {
        let staged = self.store.staged_total();
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
