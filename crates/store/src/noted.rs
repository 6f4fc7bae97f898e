//! What somebody took note of is no news: what failed since tells how the pool is (S-18.12).

use crate::{DeviceErrors, Snapshot, Store};

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

impl Store {
    /// Somebody takes note of all that was told until now (`keepfs damage clear`). Returns how many entries the list of damages had.
    pub fn take_note(&self) -> usize {
        let mut noted = self.watch.noted.lock();
        *noted = Noted {
            errors: self.device_errors(),
            counts: self.stats(),
            log: self.log_mended().len(),
            times: noted.times + 1,
        };
        drop(noted);
        self.history().clear_damage()
    }

    /// How often [`Store::take_note`] was called since the pool was opened: what is damaged still, and met again behind it, is told again.
    pub fn times_noted(&self) -> u64 {
        self.watch.noted.lock().times
    }

    /// What is to be told of how the pool is, beside what is damaged now.
    pub fn news(&self) -> News {
        let noted = self.watch.noted.lock();
        let (errors, counts) = (self.device_errors(), self.stats());
        News {
            errors: DeviceErrors {
                reads: errors.reads - noted.errors.reads,
                writes: errors.writes - noted.errors.writes,
                flushes: errors.flushes - noted.errors.flushes,
                checksums: errors.checksums - noted.errors.checksums,
            },
            bad_copies: counts.bad_copies - noted.counts.bad_copies,
            mended: mended(&counts) - mended(&noted.counts),
            dropped: counts.scribbles_dropped - noted.counts.scribbles_dropped,
            log_mended: self.log_mended().len() - noted.log,
        }
    }
}
