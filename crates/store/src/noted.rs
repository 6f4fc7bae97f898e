//! What somebody took note of is no news: what failed since tells how the pool is (S-18.12).

use crate::{DeviceErrors, Snapshot};

/// What failed, or was damaged and mended, since the pool was opened or somebody took note of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// Of the device.
    pub errors: DeviceErrors,
    /// Copies of metadata that were bad.
    pub bad_copies: u64,
    /// Frames that were damaged in memory, and mended.
    pub mended: u64,
    /// The same, dropped.
    pub dropped: u64,
    /// Pages of the log that were bad, and mended.
    pub log_mended: usize,
}

/// What was counted when somebody took note.
#[derive(Default)]
pub(crate) struct Noted {
    errors: DeviceErrors,
    counts: Snapshot,
    log: usize,
    /// How often somebody did, since the pool was opened.
    times: u64,
}

fn mended(counts: &Snapshot) -> u64 {
    counts.repaired + counts.rebuilt + counts.read_again
}

impl Noted {
    /// Somebody takes note of what was counted until now.
    pub fn take(&mut self, errors: DeviceErrors, counts: Snapshot, log: usize) {
        *self = Noted {
            errors,
            counts,
            log,
            times: self.times + 1,
        };
    }

    /// How often somebody did.
    pub fn times(&self) -> u64 {
        self.times
    }

    /// What is to be told, with these counts now.
    pub fn news(&self, errors: DeviceErrors, counts: Snapshot, log: usize) -> News {
        News {
            errors: DeviceErrors {
                reads: errors.reads - self.errors.reads,
                writes: errors.writes - self.errors.writes,
                flushes: errors.flushes - self.errors.flushes,
                checksums: errors.checksums - self.errors.checksums,
            },
            bad_copies: counts.bad_copies - self.counts.bad_copies,
            mended: mended(&counts) - mended(&self.counts),
            dropped: counts.scribbles_dropped - self.counts.scribbles_dropped,
            log_mended: log - self.log,
        }
    }
}
