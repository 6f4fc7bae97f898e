//! When a frame was verified last, and whether that is long ago (PROTOCOLS section 2, step 0; decision 0440).

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tick(u64);

/// Tells ticks.
pub(crate) struct Clock {
    opened: Instant,
    /// For how many ticks a frame that was verified need not be verified again.
    young: u64,
    /// No verification before this counts, one more than its tick.
    trusted: AtomicU64,
}

impl Clock {
    /// A frame that was verified stays so for `young`, in whole milliseconds; 0: never.
    pub fn new(young: Duration) -> Clock {
        Clock {
            opened: Instant::now(),
            young: young.as_millis() as u64,
            trusted: AtomicU64::new(0),
        }
    }

    /// No verification up to now counts any more.
    pub fn forget(&self, now: Tick) {
        self.trusted.fetch_max(now.0 + 1, Ordering::Relaxed);
    }

    /// Now.
    pub fn now(&self) -> Tick {
        Tick(self.opened.elapsed().as_millis() as u64)
    }
}

/// When a frame was verified last.
#[derive(Default)]
pub(crate) struct Verified(AtomicU64);

impl Verified {
    /// It was, just now.
    pub fn set(&self, now: Tick) {
        self.0.store(now.0 + 1, Ordering::Relaxed);
    }

    /// Not since it has other content.
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// When, as a number that grows; 0: not since it has other content.
    pub fn at(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// How many milliseconds ago, if it was.
    pub fn ago(&self, now: Tick) -> Option<u32> {
        let at = self.0.load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(now.0.saturating_sub(at)).ok()
    }

    /// Whether that was a moment ago.
    pub fn is_young(&self, clock: &Clock, now: Tick) -> bool {
        let at = self.0.load(Ordering::Relaxed);
        at > clock.trusted.load(Ordering::Relaxed) && now.0 + 1 < at + clock.young
    }
}

#[cfg(test)]
mod tests;
