//! Audits in the style of Recon, for comparison (WAFL 2017, section 2: 30 % of throughput): each metablock is copied before a
//! transaction's first change of it, and compared whole when the transaction is sealed. Only with the feature `measure`.
//!
//! What the comparison finds is what undo has told the auditor already; here it is only counted.

use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::PAGE;
use keepfs_vault::arena::{Arena, Copy, FrameNo};

/// Words found changed so far, by all stores of the process.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// Words of 8 bytes that comparisons have found changed so far, in this process.
pub fn words_found() -> u64 {
    FOUND.load(Ordering::Relaxed)
}

/// The metablocks of a transaction as they were before it.
#[derive(Default)]
pub(super) struct Copies(Vec<(FrameNo, Copy)>);

impl Copies {
    /// Copies a frame that is about to be changed for the first time.
    pub(super) fn keep(&mut self, arena: &Arena, frame: FrameNo) {
        let mut copy = Box::new([0; PAGE]);
        arena.load_raw(frame, 0, &mut *copy);
        self.0.push((frame, copy));
    }

    /// Compares them with what stands there now.
    pub(super) fn compare(&self, arena: &Arena) {
        if self.0.is_empty() {
            return;
        }
        let mut now = [0; PAGE];
        let mut found = 0;
        for (frame, old) in &self.0 {
            arena.load_raw(*frame, 0, &mut now);
            let words = old.chunks_exact(8).zip(now.chunks_exact(8));
            found += words.filter(|(old, new)| old != new).count() as u64;
        }
        FOUND.fetch_add(found, Ordering::Relaxed);
    }
}
