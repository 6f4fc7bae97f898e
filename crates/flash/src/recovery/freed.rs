//! Pages that a recovery finds freed and leaves as they are until its checkpoint is durable (S-9.5, S-16.5).

use keepfs_format::Space;
use keepfs_format::plog::{Record, Run};
use std::collections::BTreeMap;

/// Runs of pages that records have freed and none behind has taken again, with the transaction that freed each.
#[derive(Default, Debug)]
pub struct Freed {
    /// By the first page.
    runs: BTreeMap<u64, (Run, u64)>,
}

/// The page behind a run.
fn end(run: &Run) -> u64 {
    run.start.saturating_add(u64::from(run.count))
}

impl Freed {
    /// A record of transaction `seq`, or of a group of which that is the last one.
    pub fn see(&mut self, seq: u64, record: &Record) {
        match record {
            Record::Alloc {
                space: Space::Pages,
                run,
            } => self.take(run),
            Record::Free {
                space: Space::Pages,
                run,
            } => {
                self.runs.insert(run.start, (*run, seq));
            }
            _ => {}
        }
    }

    /// They are in use again.
    fn take(&mut self, used: &Run) {
        while let Some((run, seq)) = self.last_below(end(used)).filter(|(run, _)| end(run) > used.start) {
            self.runs.remove(&run.start);
            for (start, to) in [(run.start, used.start), (end(used), end(&run))] {
                if start < to {
                    let count = (to - start) as u32;
                    self.runs.insert(start, (Run { start, count }, seq));
                }
            }
        }
    }

    fn last_below(&self, page: u64) -> Option<(Run, u64)> {
        self.runs.range(..page).next_back().map(|(_, found)| *found)
    }

    /// What is left of them, in the order of the transactions.
    pub fn into_runs(self) -> Vec<(u64, Run)> {
        let mut runs: Vec<(u64, Run)> = self.runs.into_values().map(|(run, seq)| (seq, run)).collect();
        runs.sort_by_key(|(seq, _)| *seq);
        runs
    }
}

#[cfg(test)]
mod tests;
