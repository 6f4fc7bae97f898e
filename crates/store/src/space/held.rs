//! Pages that somebody reserved and that no transaction has allocated yet, page by page (SPEC S-11.3).

use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::plog::Run;
use smallvec::SmallVec;

/// Who holds pages: each reservation is another one, so that giving back never frees what somebody else was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder(u64);

/// Makes holders.
#[derive(Default)]
pub(super) struct Holders(AtomicU64);

impl Holders {
    pub fn next(&self) -> Holder {
        Holder(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Which runs are held. Runs of one holder do not overlap, and no page has two holders.
#[derive(Default)]
pub(super) struct Held(Vec<(Holder, Run)>);

/// Parts of a run.
pub(super) type Parts = SmallVec<[Run; 2]>;

impl Held {
    pub fn add(&mut self, holder: Holder, runs: &[Run]) {
        self.0.extend(runs.iter().map(|run| (holder, *run)));
    }

    /// All of them.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.0.iter().map(|(_, run)| *run)
    }

    /// The pages of `run` are held no more; returns those that were, by `holder` if one is named.
    pub fn take(&mut self, holder: Option<Holder>, run: Run) -> Parts {
        let end = |run: &Run| run.start + u64::from(run.count);
        let mut taken = Parts::new();
        let mut at = 0;
        while let Some((by, held)) = self.0.get(at).copied() {
            let (from, to) = (held.start.max(run.start), end(&held).min(end(&run)));
            if from >= to || holder.is_some_and(|holder| holder != by) {
                at += 1;
                continue;
            }
            self.0.swap_remove(at);
            let parts = [(held.start, from), (to, end(&held))];
            let rest = parts.into_iter().filter(|(from, to)| from < to);
            self.0.extend(rest.map(|(from, to)| (by, between(from, to))));
            taken.push(between(from, to));
        }
        taken
    }
}

fn between(from: u64, to: u64) -> Run {
    Run {
        start: from,
        count: (to - from) as u32,
    }
}
