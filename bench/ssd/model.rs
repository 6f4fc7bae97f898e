//! How long an SSD takes: rates of the device, and one queue.
//!
//! The ReconFS paper's SSD (its Table 2): 260 and 200 MB/s in order, 17,000 reads and 5,000 writes of 4 KiB a second at
//! random; a flush is taken as 1 ms, which the paper does not tell. The device does one thing after the other: a
//! request begins when the one before is done.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Streams whose ends are remembered: a request that goes on where one of the last ended is in order.
const STREAMS: usize = 8;
/// Size of the requests that the random rates are told for.
const SMALL: u64 = 4096;

/// Rates of reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// In order, bytes a second.
    pub bytes: u64,
    /// At random, requests of 4 KiB a second.
    pub small: u64,
}

/// A device's rates.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Reads.
    pub read: Rates,
    /// Writes.
    pub write: Rates,
    /// Time of a flush.
    pub flush: Duration,
}

/// The SSD of the ReconFS paper.
pub const RECONFS: Profile = Profile {
    read: Rates {
        bytes: 260_000_000,
        small: 17_000,
    },
    write: Rates {
        bytes: 200_000_000,
        small: 5_000,
    },
    flush: Duration::from_millis(1),
};

/// The device's queue.
pub struct Queue {
    profile: Profile,
    busy_until: Instant,
    read_ends: VecDeque<u64>,
    write_ends: VecDeque<u64>,
}

impl Queue {
    /// An idle device.
    pub fn new(profile: Profile, now: Instant) -> Queue {
        Queue {
            profile,
            busy_until: now,
            read_ends: VecDeque::new(),
            write_ends: VecDeque::new(),
        }
    }

    /// When a read that comes now is done.
    pub fn read(&mut self, now: Instant, offset: u64, len: u64) -> Instant {
        let cost = cost(self.profile.read, &mut self.read_ends, offset, len);
        self.enter(now, cost)
    }

    /// When a write that comes now is done.
    pub fn write(&mut self, now: Instant, offset: u64, len: u64) -> Instant {
        let cost = cost(self.profile.write, &mut self.write_ends, offset, len);
        self.enter(now, cost)
    }

    /// When a flush that comes now is done.
    pub fn flush(&mut self, now: Instant) -> Instant {
        self.enter(now, self.profile.flush)
    }

    fn enter(&mut self, now: Instant, cost: Duration) -> Instant {
        self.busy_until = self.busy_until.max(now) + cost;
        self.busy_until
    }
}

/// How long a request takes by itself.
fn cost(rates: Rates, ends: &mut VecDeque<u64>, offset: u64, len: u64) -> Duration {
    let stream = ends.iter().position(|end| *end == offset);
    if let Some(stream) = stream {
        ends.remove(stream);
    }
    ends.push_front(offset + len);
    ends.truncate(STREAMS);
    let moved = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / rates.bytes);
    match stream {
        Some(_) => moved(len),
        None => Duration::from_nanos(1_000_000_000 / rates.small) + moved(len.saturating_sub(SMALL)),
    }
}

#[cfg(test)]
mod tests;
