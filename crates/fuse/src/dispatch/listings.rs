//! Which handle of a directory may fill the kernel's memory of its listing (S-20.28).
//!
//! The kernel compares what it remembers with the directory only where somebody begins to list, and only if a whole listing is
//! remembered by then. So of two handles that it may remember by, one can complete a listing that it began before a change while
//! the other, which began behind that change, takes its later pieces from there. A handle without the flag of it neither
//! reads what is remembered nor adds to it.

use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_vfs::Ino;
use parking_lot::Mutex;
use std::collections::HashSet;

/// The directories that have an open handle by which the kernel remembers.
#[derive(Default)]
pub struct Listings {
    taken: Mutex<HashSet<Ino>>,
    /// There may be handles that another server gave.
    others: AtomicBool,
}

impl Listings {
    /// Another server gave handles of this mount, and nobody tells which of them are open: from here on nobody gets any.
    pub fn others_have_some(&self) {
        self.others.store(true, Ordering::Release);
    }

    /// Whether the handle of this directory that is about to be given is the one; then it is until [`Listings::give_back`].
    pub fn take(&self, dir: Ino) -> bool {
        !self.others.load(Ordering::Acquire) && self.taken.lock().insert(dir)
    }

    /// That handle is closed, or was not given.
    pub fn give_back(&self, dir: Ino) {
        self.taken.lock().remove(&dir);
    }
}
