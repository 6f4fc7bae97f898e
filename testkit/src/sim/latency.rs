//! Simulated time of a device's operations.

use std::time::Duration;

use super::Operation;

/// How long operations take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Nanoseconds of each read.
    pub read_ns: u64,
    /// Nanoseconds of each write.
    pub write_ns: u64,
    /// Nanoseconds of each flush.
    pub flush_ns: u64,
    /// Picoseconds of each byte read or written.
    pub byte_ps: u64,
    /// Whether the caller really waits; else time is only counted.
    pub sleeps: bool,
}

impl Latency {
    /// No time at all.
    pub const fn none() -> Self {
        Self {
            read_ns: 0,
            write_ns: 0,
            flush_ns: 0,
            byte_ps: 0,
            sleeps: false,
        }
    }

    /// The time of one operation, waited for if this profile says so.
    pub(super) fn spend(&self, operation: Operation, bytes: usize) -> Duration {
        let fixed = match operation {
            Operation::Read => self.read_ns,
            Operation::Write => self.write_ns,
            Operation::Flush => self.flush_ns,
            Operation::Discard => 0,
        };
        let moved = (bytes as u64).saturating_mul(self.byte_ps) / 1000;
        let spent = Duration::from_nanos(fixed.saturating_add(moved));
        if self.sleeps && !spent.is_zero() {
            std::thread::sleep(spent);
        }
        spent
    }
}
