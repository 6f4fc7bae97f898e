//! ENOSPC that is owed to writers: the kernel had answered their write(2) before the file system saw it (S-20.14).
//!
//! With the kernel's writeback cache an error of a write comes with fsync(2) and close(2), and a program that calls neither goes
//! on for ever. But before each write(2) the kernel looks whether it knows the mode of the file, and asks by GETATTR with the
//! file's handle where it does not, which nothing else does; what it is answered then, write(2) returns.

use core::sync::atomic::{AtomicUsize, Ordering};
use keepfs_vfs::Ino;
use parking_lot::Mutex;
use std::collections::HashSet;

/// Files of which a write that was answered found no room.
#[derive(Default)]
pub struct Owed {
    /// How many there are: nearly always none, and nobody waits then.
    count: AtomicUsize,
    files: Mutex<HashSet<Ino>>,
}

impl Owed {
    /// There was no room for a write of this file.
    pub fn note(&self, ino: Ino) {
        let mut files = self.files.lock();
        files.insert(ino);
        self.count.store(files.len(), Ordering::Release);
    }

    /// Whether its next writer is to be told.
    pub fn has(&self, ino: Ino) -> bool {
        self.count.load(Ordering::Acquire) != 0 && self.files.lock().contains(&ino)
    }

    /// The same, for who tells it: once for all that was noted.
    pub fn take(&self, ino: Ino) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut files = self.files.lock();
        let was = files.remove(&ino);
        self.count.store(files.len(), Ordering::Release);
        was
    }
}
