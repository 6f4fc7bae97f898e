//! Finishing cuts and holes (S-5.6, S-5.10): a transaction at a time, with the lock of the file given to who waits for it in between
//! (S-20.19).
//!
//! Whoever looks meanwhile sees the cut or hole done, from its first transaction on. Whoever changes the file's contents finishes it
//! first, or old pages would be seen again.

use super::{hole, truncate};
use crate::Volume;
use crate::errors::Result;
use crate::inode::{Held, pending_hole};
use crate::locks::Locks;
use keepfs_format::inode::Inode;
use parking_lot::RwLockWriteGuard;

impl Volume {
    /// The exclusive lock of a file whose contents are to be changed, without a cut or hole under way. One that cannot be finished
    /// stays: who needs it finished is told ([`Volume::finish_cut`]).
    pub(crate) fn settled(&self, ino: u64) -> RwLockWriteGuard<'_, ()> {
        let mut lock = self.locks.exclusive(ino);
        self.settle_under(ino, &mut lock);
        lock
    }

    /// The same with the lock held already, which is given away in between.
    pub(crate) fn settle_under(&self, ino: u64, lock: &mut RwLockWriteGuard<'_, ()>) {
        while self.orphans.is_trimming(ino) && self.settle_step(ino, false).is_ok_and(|done| !done) {
            Locks::give_way(lock);
        }
    }

    /// Frees what a cut or hole left that has begun with this lock held. Errors: what is left stays on the hidden list.
    pub(crate) fn free_cut(&self, ino: u64, lock: &mut RwLockWriteGuard<'_, ()>) -> Result<()> {
        self.orphans.trim_starts(ino);
        while self.orphans.is_trimming(ino) && !self.settle_step(ino, false)? {
            Locks::give_way(lock);
        }
        Ok(())
    }

    /// The same without giving way, also of what another life of the server left. Called with the exclusive lock held.
    pub(crate) fn free_cut_at_once(&self, ino: u64, recovers: bool) -> Result<()> {
        self.orphans.trim_starts(ino);
        while !self.settle_step(ino, recovers)? {}
        Ok(())
    }

    /// One transaction of it; whether nothing is left. Called with the exclusive lock held.
    pub(crate) fn settle_step(&self, ino: u64, recovers: bool) -> Result<bool> {
        let done = self.change(|txn| {
            let file = Held::load(txn, ino)?;
            match pending_hole(&file.now).is_empty() {
                true => truncate::trim_step(txn, file),
                false => hole::step(txn, file, recovers),
            }
        })?;
        if done {
            self.orphans.trim_ends(ino);
        }
        Ok(done)
    }

    /// Before a file grows, is punched or gets its first name: a cut or hole that could not be finished must be done, or old
    /// pages would be seen again. Tells whether one was. Called with the exclusive lock held.
    pub(crate) fn finish_cut(&self, ino: u64) -> Result<bool> {
        let is_left = self.orphans.is_trimming(ino);
        if is_left {
            self.free_cut_at_once(ino, false)?;
        }
        Ok(is_left)
    }

    /// Before the contents change: the inode without a pending hole. Called with the exclusive lock held.
    pub(crate) fn without_hole(&self, ino: u64, inode: Inode) -> Result<Inode> {
        if inode.hole().is_none() {
            return Ok(inode);
        }
        self.free_cut_at_once(ino, false)?;
        self.see(|view| self.usable(view, ino))
    }
}
