//! How fast a scrub goes: a limit of bytes a second, and giving way to who works on the pool (S-19.7).

use keepfs_format::PAGE;
use keepfs_store::Store;
use std::time::Duration;

/// How long a slice waits behind another when somebody works on the pool.
const GIVE_WAY: Duration = Duration::from_millis(20);

/// What others had done when the last slice ended.
#[derive(Default)]
pub(super) struct Pace {
    seen: Option<u64>,
}

impl Pace {
    /// How long to wait after a slice that read `pages` pages, with at most `limit` bytes a second (0: no limit).
    pub fn after(&mut self, store: &Store, pages: u64, limit: u64) -> Duration {
        let work = work_of_others(store);
        let is_busy = self.seen.replace(work).is_some_and(|before| before != work);
        let limited = match limit {
            0 => Duration::ZERO,
            _ => Duration::from_secs_f64((pages * PAGE as u64) as f64 / limit as f64),
        };
        limited.max(if is_busy { GIVE_WAY } else { Duration::ZERO })
    }
}

/// A number that changes when somebody else than a scrub works: transactions, and what was written.
fn work_of_others(store: &Store) -> u64 {
    let written: u64 = store.traffic().written.iter().map(|class| class.operations).sum();
    store.last_seq().wrapping_add(written)
}
