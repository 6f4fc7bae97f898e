//! Whether a kind of request usually sleeps below us, measured, so that readers are not kept waiting by a slow device.
//!
//! A reader that serves a request itself saves a hand-over (about 20 µs); one that sleeps for a device stops its
//! whole CPU's requests. So requests of a kind go to workers while their mean time is that of a device, and come
//! back when it is that of memory again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Mean time from which a kind is handed over.
const SLOW: Duration = Duration::from_micros(60);
/// Mean time under which it comes back. Well below [`SLOW`], so that it does not swing.
const FAST: Duration = Duration::from_micros(25);
/// Mean time from which it is asked whether a request slept, which costs a system call: well below [`FAST`].
const WATCHED: Duration = Duration::from_micros(15);
/// What memory needs for each KiB of data (copies and sums at 2 GiB/s): no sign of a device.
const PER_KIB: Duration = Duration::from_nanos(500);
/// The mean moves by this part of the difference.
const WEIGHT: i64 = 16;

/// The measured pace of one kind of request.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    mean_ns: AtomicU64,
    slow: AtomicBool,
}

impl Pace {
    /// Takes one measurement into the mean, of a request that moved `bytes` bytes. Racing threads may lose one, which
    /// does not matter.
    pub(crate) fn took(&self, time: Duration, bytes: usize) {
        let time = time.saturating_sub(PER_KIB * (bytes / 1024) as u32);
        // A single stall (of a preempted thread, say) counts at most ten times the threshold.
        let time = time.min(SLOW * 10).as_nanos() as i64;
        let old = self.mean_ns.load(Ordering::Relaxed) as i64;
        let mean = old + (time - old) / WEIGHT;
        self.mean_ns.store(mean as u64, Ordering::Relaxed);
        let mean = Duration::from_nanos(mean as u64);
        let slow = self.slow.load(Ordering::Relaxed);
        if (mean >= SLOW && !slow) || (mean < FAST && slow) {
            self.slow.store(!slow, Ordering::Relaxed);
        }
    }

    /// Whether it matters by now if the next request sleeps.
    pub(crate) fn is_watched(&self) -> bool {
        self.mean_ns.load(Ordering::Relaxed) >= WATCHED.as_nanos() as u64
    }

    /// As [`Pace::took`], for a watched request: one that did not sleep only lost its CPU to others, which a worker would too.
    pub(crate) fn watched(&self, time: Duration, slept: bool, bytes: usize) {
        self.took(if slept { time } else { time.min(WATCHED) }, bytes);
    }

    /// Whether requests of this kind shall be handed over.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
