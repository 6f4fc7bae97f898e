//! What the pause of a mount consists of, from the end of a server to the moment when the next one answers.

use keepfs_store::Parts;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The parts of a pause, microseconds, in the order in which they come.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pause {
    /// From the moment when the keeper noticed: the next server's process begins and is handed everything.
    pub start: u64,
    /// It gives up its rights.
    pub confine: u64,
    /// The memory that the last one left is mapped.
    pub adopt: u64,
    /// Its open transactions are rolled back in it.
    pub roll_back: u64,
    /// The pool is recovered: log and redo.
    pub recover: u64,
    /// The checkpoint behind them: flush, write, flush, superblock, flush.
    pub checkpoint: u64,
    /// Every frame of the last one's memory is looked at.
    pub evidence: u64,
    /// Requests and lookup counts are carried over.
    pub requests: u64,
    /// Inodes without names are found.
    pub volume: u64,
    /// The keeper gets this server's memory, the kernel sends again what was not answered, threads begin.
    pub serve: u64,
}

impl Pause {
    /// What the store and the volume took.
    pub fn resumed(&mut self, parts: &Parts) {
        self.adopt = micros(parts.adopt);
        self.roll_back = micros(parts.roll_back);
        self.recover = micros(parts.recover);
        self.checkpoint = micros(parts.checkpoint);
        self.evidence = micros(parts.evidence);
        self.requests = micros(parts.requests);
        self.volume = micros(parts.volume);
    }
}

/// Measures one part after another.
pub struct Lap(Instant);

impl Lap {
    /// From now on.
    pub fn begin() -> Lap {
        Lap(Instant::now())
    }

    /// Microseconds since the last one, or the beginning.
    pub fn micros(&mut self) -> u64 {
        let now = Instant::now();
        micros(now - std::mem::replace(&mut self.0, now))
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
