//! Counted traffic of a device: written bytes per class, the measure of write amplification.

use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a write is for; written bytes are counted per class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Superblock slots.
    Superblock,
    /// Map pages.
    Map,
    /// Metablocks.
    Metadata,
    /// Log pages.
    Plog,
    /// File data.
    Data,
    /// Events, damages and named records.
    History,
}

impl Class {
    /// All classes, in the order of their counters.
    pub const ALL: [Class; 6] = [
        Class::Superblock,
        Class::Map,
        Class::Metadata,
        Class::Plog,
        Class::Data,
        Class::History,
    ];

    /// The class's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Superblock => "superblock",
            Class::Map => "map",
            Class::Metadata => "metadata",
            Class::Plog => "plog",
            Class::Data => "data",
            Class::History => "history",
        }
    }
}

/// Operations and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, earlier: Traffic) -> Traffic {
        Traffic {
            operations: self.operations.wrapping_sub(earlier.operations),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
        }
    }
}

/// A snapshot of a device's counters; the difference of two is the traffic between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes, in the order of [`Class::ALL`].
    pub written: [Traffic; Class::ALL.len()],
    /// Reads.
    pub read: Traffic,
    /// Flushes.
    pub flushes: u64,
    /// Discards and the bytes they gave back.
    pub discarded: Traffic,
}

impl Counters {
    /// Writes of one class.
    pub fn of(&self, class: Class) -> Traffic {
        self.written[class as usize]
    }

    /// Writes of all classes.
    pub fn all_written(&self) -> Traffic {
        self.written.iter().fold(Traffic::default(), |sum, part| Traffic {
            operations: sum.operations + part.operations,
            bytes: sum.bytes + part.bytes,
        })
    }
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, earlier: Counters) -> Counters {
        Counters {
            written: std::array::from_fn(|i| self.written[i] - earlier.written[i]),
            read: self.read - earlier.read,
            flushes: self.flushes.wrapping_sub(earlier.flushes),
            discarded: self.discarded - earlier.discarded,
        }
    }
}

/// The running counters inside a device.
#[derive(Debug, Default)]
pub struct Meter {
    written: [Pair; Class::ALL.len()],
    read: Pair,
    flushes: AtomicU64,
    discarded: Pair,
}

#[derive(Debug, Default)]
struct Pair {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl Pair {
    fn add(&self, bytes: u64) {
        self.operations.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn get(&self) -> Traffic {
        Traffic {
            operations: self.operations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl Meter {
    /// A write of so many bytes.
    pub fn write(&self, class: Class, bytes: usize) {
        self.written[class as usize].add(bytes as u64);
    }

    /// A read of so many bytes.
    pub fn read(&self, bytes: usize) {
        self.read.add(bytes as u64);
    }

    /// A flush.
    pub fn flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// A discard of so many bytes.
    pub fn discard(&self, bytes: u64) {
        self.discarded.add(bytes);
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> Counters {
        Counters {
            written: std::array::from_fn(|i| self.written[i].get()),
            read: self.read.get(),
            flushes: self.flushes.load(Ordering::Relaxed),
            discarded: self.discarded.get(),
        }
    }
}

#[cfg(test)]
mod tests;
