//! Locks of this floor and their order: rename lock, then inode locks, then the store's transaction.
//!
//! Invariants: (1) a thread takes locks in ascending [`Rank`]; (2) inode locks are taken all at once, ascending by
//! shard, each shard once; (3) no inode lock is taken inside a transaction; (4) whoever reads a data page holds its
//! inode's lock through the device read, so the page cannot be freed and reused meanwhile.

use keepfs_store::Padded;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The order in which locks are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Moves of directories between directories.
    Rename,
    /// Inode locks of this shard.
    Inode(u16),
}

/// Number of inode lock shards. Two inodes of one shard share a lock, which costs waiting but never a deadlock.
const SHARDS: usize = 1024;
/// A little while: longer than anybody holds a lock who waits for nothing.
const SOON: Duration = Duration::from_millis(10);
/// Most inodes an operation locks at once.
const MOST: usize = 6;

/// All locks of a volume.
pub(crate) struct Locks {
    rename: Mutex<()>,
    shards: Box<[Padded<RwLock<()>>]>,
}

/// Exclusive locks of several inodes.
pub(crate) struct Exclusive<'a> {
    _guards: [Option<RwLockWriteGuard<'a, ()>>; MOST],
}

/// The lock of `ino`.
fn rank(ino: u64) -> Rank {
    Rank::Inode((ino % SHARDS as u64) as u16)
}

impl Locks {
    /// Locks for a volume.
    pub fn new() -> Locks {
        Locks {
            rename: Mutex::new(()),
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
        }
    }

    fn shard(&self, rank: Rank) -> &RwLock<()> {
        match rank {
            Rank::Inode(shard) => &self.shards[usize::from(shard)],
            Rank::Rename => &self.shards[0],
        }
    }

    /// The rename lock; taken before any inode lock.
    pub fn rename(&self) -> MutexGuard<'_, ()> {
        self.rename.lock()
    }

    /// Shared lock of one inode.
    pub fn shared(&self, ino: u64) -> RwLockReadGuard<'_, ()> {
        self.shard(rank(ino)).read()
    }

    /// Shared lock of one inode if nobody changes it.
    pub fn try_shared(&self, ino: u64) -> Option<RwLockReadGuard<'_, ()>> {
        self.shard(rank(ino)).try_read()
    }

    /// Exclusive lock of one inode.
    pub fn exclusive(&self, ino: u64) -> RwLockWriteGuard<'_, ()> {
        self.shard(rank(ino)).write()
    }

    /// Exclusive lock of one inode if it can be had in a little while: who has it may wait for what the caller holds, and who looks
    /// again and again leaves no moment in which nobody holds it.
    pub fn exclusive_soon(&self, ino: u64) -> Option<RwLockWriteGuard<'_, ()>> {
        self.shard(rank(ino)).try_write_for(SOON)
    }

    /// The exclusive lock of a file goes to who waits for it, if somebody does, and comes back. What was read under it may not be so
    /// any more (S-20.19). No other lock is held.
    pub fn give_way(lock: &mut RwLockWriteGuard<'_, ()>) {
        RwLockWriteGuard::bump(lock);
    }

    /// Exclusive lock of one inode if nobody holds it.
    pub fn try_exclusive(&self, ino: u64) -> Option<RwLockWriteGuard<'_, ()>> {
        self.shard(rank(ino)).try_write()
    }

    /// Exclusive locks of up to six inodes in the one order; 0 stands for none.
    pub fn all<const N: usize>(&self, inos: [u64; N]) -> Exclusive<'_> {
        const { assert!(N <= MOST) };
        let mut ranks = inos.map(|ino| (ino != 0).then(|| rank(ino)));
        ranks.sort_unstable();
        let mut guards = [const { None }; MOST];
        let mut last = Rank::Rename;
        for (guard, rank) in guards.iter_mut().zip(ranks.into_iter().flatten()) {
            debug_assert!(last <= rank);
            if last != rank {
                *guard = Some(self.shard(rank).write());
            }
            last = rank;
        }
        Exclusive { _guards: guards }
    }
}

#[cfg(test)]
mod tests;
