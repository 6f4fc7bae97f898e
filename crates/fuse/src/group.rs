//! Groups of threads: what every request touches exists once for each, so that CPUs do not write the same cache lines.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Groups of threads.
pub(crate) const GROUPS: usize = 8;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static GROUP: usize = NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS;
}

/// The group of this thread.
pub(crate) fn mine() -> usize {
    GROUP.with(|group| *group)
}
