//! Pages that no file may have, whatever block maps and bitmaps say: superblock slots, the log, the history, and the chunks of
//! metadata (S-2.4, S-4.5; promise C-8: a bitmap that lies costs space, never the pool).

use crate::pool::{self, Pool};
use core::ops::Range;
use keepfs_format::plog::Run;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// The pages, as runs by their first page.
#[derive(Debug)]
pub struct System {
    runs: RwLock<BTreeMap<u64, u32>>,
}

impl System {
    /// Slots and log of a pool; chunks come with [`System::add`].
    pub fn of(pool: &Pool) -> System {
        let fixed = pool::fixed_runs(pool);
        System {
            runs: RwLock::new(fixed.into_iter().map(|run| (run.start, run.count)).collect()),
        }
    }

    /// A run of metadata pages begins its life.
    pub fn add(&self, run: Run) {
        self.runs.write().insert(run.start, run.count);
    }

    /// The runs that reach into the range, ascending.
    pub fn runs_in(&self, pages: Range<u64>) -> Vec<Run> {
        let runs = self.runs.read();
        let end = |run: &Run| run.start + u64::from(run.count);
        // Runs do not overlap: of those that begin before the range only the last one can reach into it.
        let before = runs.range(..pages.start).next_back().into_iter();
        let found = before.chain(runs.range(pages.clone()));
        let found = found.map(|(start, count)| Run {
            start: *start,
            count: *count,
        });
        found.filter(|run| end(run) > pages.start).collect()
    }

    /// A chunk of metadata is no more: its pages are data's.
    pub fn remove(&self, run: Run) {
        self.runs.write().remove(&run.start);
    }

    /// The first page of the range that belongs to the pool itself.
    pub fn first_in(&self, pages: Range<u64>) -> Option<u64> {
        {
            // As a rule none does: then the last one that begins before the range's end ends before the range.
            let runs = self.runs.read();
            let (start, count) = runs.range(..pages.end).next_back()?;
            if start + u64::from(*count) <= pages.start {
                return None;
            }
        }
        let first = self.runs_in(pages.clone()).first().map(|run| run.start);
        first.map(|start| start.max(pages.start))
    }

    /// Whether a page belongs to the pool itself.
    pub fn has(&self, page: u64) -> bool {
        self.first_in(page..page + 1).is_some()
    }
}

#[cfg(test)]
mod tests;
