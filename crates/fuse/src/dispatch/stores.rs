//! Of which files the kernel may have data that it has not sent yet (S-20.29).

use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_vfs::Ino;
use parking_lot::Mutex;
use std::collections::HashMap;

/// The files with open handles by which the kernel takes data that it sends later, and how many. It sends what it has before
/// it releases such a handle, and a mapping keeps its own.
#[derive(Default)]
pub struct Stores {
    open: Mutex<HashMap<Ino, u64>>,
    /// There may be handles that another server gave.
    others: AtomicBool,
}

impl Stores {
    /// Another server gave handles of this mount, and nobody tells which of them are open: from here on any file may have one.
    pub fn others_have_some(&self) {
        self.others.store(true, Ordering::Release);
    }

    /// Before such a handle is given.
    pub fn opened(&self, file: Ino) {
        *self.open.lock().entry(file).or_default() += 1;
    }

    /// Such a handle is released.
    pub fn closed(&self, file: Ino) {
        let mut open = self.open.lock();
        if let Some(handles) = open.get_mut(&file) {
            *handles -= 1;
            if *handles == 0 {
                open.remove(&file);
            }
        }
    }

    /// Whether the kernel may have data of the file that it has not sent.
    pub fn may_come(&self, file: Ino) -> bool {
        self.others.load(Ordering::Acquire) || self.open.lock().contains_key(&file)
    }
}
