//! When a frame was last seen to be right as a whole, for those who tell of damage (S-15.15) and who looks at the oldest first.

use core::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Milliseconds since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick(u64);

/// Tells ticks.
pub struct Clock(Instant);

impl Clock {
    /// From now on.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Now.
    pub fn now(&self) -> Tick {
        Tick(self.0.elapsed().as_millis() as u64)
    }
}

/// When a frame was last seen to be right: one more than the tick, 0 = not since it has other content.
#[derive(Default)]
pub struct Seen(AtomicU64);

impl Seen {
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
        let at = self.at().checked_sub(1)?;
        u32::try_from(now.0.saturating_sub(at)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_told_from_the_last_look() {
        let seen = Seen::default();
        assert_eq!(seen.ago(Tick(7)), None);
        seen.set(Tick(5));
        assert_eq!((seen.at(), seen.ago(Tick(7))), (6, Some(2)));
        seen.clear();
        assert_eq!(seen.ago(Tick(7)), None);
    }
}
