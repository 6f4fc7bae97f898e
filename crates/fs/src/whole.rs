//! Operations on the whole volume: fsync, sync, statfs, trim, shutdown.

use crate::Volume;
use crate::errors::Result;
use keepfs_format::PAGE;
use keepfs_format::inode::PER_BLOCK;
use keepfs_store::Purpose;
use keepfs_vfs::{Errno, StatFs};

impl Volume {
    /// Everything up to now becomes durable, so these inodes do; how it went for each. Errors: `ESTALE`, those of the
    /// device, `EIO` as long as data of the file is lost that was acknowledged (S-7.6).
    pub(crate) fn do_fsync(&self, inos: impl IntoIterator<Item = u64>) -> Vec<keepfs_vfs::Result<()>> {
        let inos: Vec<_> = inos.into_iter().map(|ino| (ino, self.why_unusable(ino))).collect();
        let synced = self.do_sync().map_err(Errno::from);
        let result = |(ino, unusable): (u64, Option<Errno>)| {
            unusable.map_or(synced, Err)?;
            // No lock otherwise: all would wait for whoever writes to one of the files.
            if self.may_have_lost(ino) {
                let _lock = self.locks.shared(ino);
                self.nothing_lost(ino)?;
            }
            Ok(())
        };
        inos.into_iter().map(result).collect()
    }

    /// Why the inode cannot be used. One that is being changed at this moment can.
    fn why_unusable(&self, ino: u64) -> Option<Errno> {
        let _lock = self.locks.try_shared(ino)?;
        self.see(|view| self.usable(view, ino)).err().map(Errno::from)
    }

    /// Everything up to now becomes durable, with one flush at most.
    pub(crate) fn do_sync(&self) -> Result<()> {
        Ok(self.store.sync()?)
    }

    /// The same for everything at once: behind it statfs knows what is free.
    pub(crate) fn do_syncfs(&self) -> Result<()> {
        self.do_sync()?;
        match self.is_read_only() {
            true => Ok(()),
            false => self.count_spare(),
        }
    }

    /// Figures of the pool: what a write gets now, be it after a sync, by freeing what was deleted just
    /// before, or by checkpoints that give back what metadata needs no more.
    /// Inodes are made as long as there is space for them.
    pub(crate) fn do_statfs(&self) -> Result<StatFs> {
        // In this order: what is freed between the two looks is told twice for a moment, and not left out.
        let coming = self.reclaimable()?;
        let space = self.store.figures();
        let coming = coming.saturating_add(space.spare);
        let available = space.obtainable_with(coming, Purpose::New).min(space.pages);
        let more = available.saturating_mul(PER_BLOCK);
        Ok(StatFs {
            block_size: PAGE as u32,
            blocks: space.pages,
            blocks_free: space.free.saturating_add(coming).min(space.pages),
            blocks_available: available,
            files: self.store.totals().inodes.saturating_add(more),
            files_free: more,
        })
    }

    /// Tells the device which whole pages of the range of bytes are free; returns their bytes. Errors: `EROFS`; `EINVAL` if
    /// the range begins behind the end, is less than a page, or is shorter than what shall be told of; `EOPNOTSUPP` if the
    /// device cannot be told.
    pub(crate) fn do_trim(&self, start: u64, len: u64, min_len: u64) -> Result<u64> {
        let size = self.store.pool().pages * PAGE as u64;
        if start >= size || len < PAGE as u64 || min_len > size {
            return Err(Errno::EINVAL.into());
        }
        let end = start.saturating_add(len) / PAGE as u64;
        let range = start.div_ceil(PAGE as u64)..end;
        let least = min_len.div_ceil(PAGE as u64).max(1);
        // What was unlinked just now may still wait for the background.
        if !self.is_read_only() {
            self.reclaim_now()?;
        }
        match self.store.trim(range, least)? {
            Some(pages) => Ok(pages * PAGE as u64),
            None => Err(Errno::EOPNOTSUPP.into()),
        }
    }

    /// Nothing reaches the device from here on. Errors: `EPERM` if the pool is not for tests (S-2.8).
    pub(crate) fn do_shutdown(&self, flush_first: bool) -> Result<()> {
        if !self.store.pool().is_test {
            return Err(Errno::EPERM.into());
        }
        if flush_first {
            self.do_sync()?;
        }
        self.store.kill();
        Ok(())
    }
}
