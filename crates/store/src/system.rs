//! Pages that no file may have, whatever block maps and bitmaps say: superblock slots, the log, the history, and the chunks of
//! metadata (S-2.4, S-4.5; promise C-8: a bitmap that lies costs space, never the pool).

use crate::locks::{RwLock, RwLockReadGuard};
use core::ops::Range;
use keepfs_format::plog::Run;
use keepfs_pool::Pool;
use keepfs_vault::{Padded, STRIPES, stripe};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs by their first page.
type Runs = BTreeMap<u64, u32>;

/// The pages. Every read and write of file data asks, and a chunk comes and goes with a checkpoint: so each stripe of threads
/// has a lock of its own around the same runs, and a change takes them one after the other (decision 0667).
#[derive(Debug)]
pub struct System {
    runs: [Padded<RwLock<Arc<Runs>>>; STRIPES],
}

impl System {
    /// Slots and log of a pool; chunks come with [`System::add`].
    pub fn of(pool: &Pool) -> System {
        let fixed = keepfs_pool::fixed_runs(pool);
        let runs: Arc<Runs> = Arc::new(fixed.into_iter().map(|run| (run.start, run.count)).collect());
        System {
            runs: core::array::from_fn(|_| Padded::new(RwLock::new(runs.clone()))),
        }
    }

    fn runs(&self) -> RwLockReadGuard<'_, Arc<Runs>> {
        self.runs[stripe()].read()
    }

    /// Every thread sees the change when this returns. Of two at a time, each takes the locks in the same order, so that the
    /// second builds on what the first made.
    fn change(&self, change: impl FnOnce(&mut Runs)) {
        let mut all = self.runs.each_ref().map(|runs| runs.write());
        // With only one owner left they change where they are: a mount adds thousands, one by one.
        let [mut runs, ..] = all.each_mut().map(|runs| core::mem::take(&mut **runs));
        change(Arc::make_mut(&mut runs));
        all.iter_mut().for_each(|all| **all = runs.clone());
    }

    /// A run of metadata pages begins its life.
    pub fn add(&self, run: Run) {
        self.change(|runs| {
            runs.insert(run.start, run.count);
        });
    }

    /// The runs that reach into the range, ascending.
    pub fn runs_in(&self, pages: Range<u64>) -> Vec<Run> {
        let runs = self.runs();
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
        self.change(|runs| {
            runs.remove(&run.start);
        });
    }

    /// The first page of the range that belongs to the pool itself.
    pub fn first_in(&self, pages: Range<u64>) -> Option<u64> {
        {
            // As a rule none does: then the last one that begins before the range's end ends before the range.
            let runs = self.runs();
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
