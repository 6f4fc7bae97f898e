//! What of a pool never changes: which numbers there are, and which pages are in use for ever.

use core::ops::Range;

/// What of a pool never changes: which numbers there are.
#[derive(Clone, Debug, Default)]
pub struct Geometry {
    /// Pages of the pool.
    pub pages: u64,
    /// Runs of pages that are in use for ever: superblock slots, log, history (S-2.4, S-2.7).
    pub fixed: Vec<Range<u64>>,
}

impl Geometry {
    /// What is wrong with pages as those that a file or a chunk may get and give. `makes`: the pool is being made.
    pub(crate) fn wrong(&self, start: u64, end: u64, makes: bool) -> Option<&'static str> {
        if end > self.pages {
            return Some("page beyond the end");
        }
        if makes {
            return None;
        }
        let meets = |run: &Range<u64>| run.start < end && start < run.end;
        self.fixed.iter().any(meets).then_some("page of slots, log or history")
    }
}
