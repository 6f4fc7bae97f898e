//! What is counted for `status`: writes by the four causes of ReconFS section 3.1.2, and events.

mod updates;

pub use updates::{DIRTY_SIZES, Updates};

use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use keepfs_vault::{Padded, STRIPES, stripe};
use std::time::Duration;

/// Buckets of a histogram of times.
const BUCKETS: usize = 20;

/// How long something took each time: a histogram by powers of two, and the longest.
#[derive(Default)]
pub struct Times {
    counts: [AtomicU64; BUCKETS],
    ns_max: AtomicU64,
}

/// Their values at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimesSeen {
    /// How often it took less than 2^i microseconds and not less than half of that; the last bucket has all longer.
    pub counts: [u64; BUCKETS],
    /// The longest, nanoseconds.
    pub ns_max: u64,
}

impl Times {
    /// Counts one.
    #[inline]
    pub fn count(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = (64 - (ns / 1000).leading_zeros() as usize).min(BUCKETS - 1);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.ns_max.fetch_max(ns, Ordering::Relaxed);
    }

    fn seen(&self) -> TimesSeen {
        TimesSeen {
            counts: core::array::from_fn(|i| self.counts[i].load(Ordering::Relaxed)),
            ns_max: self.ns_max.load(Ordering::Relaxed),
        }
    }
}

impl TimesSeen {
    /// How often.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A bound in microseconds that `per_mille` of all times did not reach; 0 if there were none.
    pub fn below_us(&self, per_mille: u64) -> u64 {
        let wanted = (self.total() * per_mille).div_ceil(1000);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += n;
            seen >= wanted && seen > 0
        });
        bucket.map_or(0, |i| 1 << i)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters, since the pool was opened.
        #[derive(Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Of each transaction.
            each: [Padded<Each>; STRIPES],
            /// Changed bytes of each metablock in each group: how often at most so many (see [`DIRTY_SIZES`]).
            pub dirty_sizes: [AtomicU64; DIRTY_SIZES.len()],
            /// For how long the barrier of a checkpoint kept the gate shut, withdrawn ones among them.
            pub barrier: Times,
            /// How long a transaction waited at a shut gate.
            pub gate: Times,
            /// How long a transaction waited for room in the arena.
            pub throttle: Times,
        }

        /// Their values at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Transactions committed.
            pub transactions: u64,
            /// Bytes written for consistency: index entries of data pages and extent records, inside the log.
            pub bytes_consistency: u64,
            /// Bytes that transactions changed in metablocks.
            pub bytes_dirty: u64,
            /// Bytes of whole pages if each transaction wrote the metablocks that it changed.
            pub bytes_full_pages: u64,
            /// Changed bytes of each metablock in each group: how often at most so many (see [`DIRTY_SIZES`]).
            pub dirty_sizes: [u64; DIRTY_SIZES.len()],
            /// For how long the barrier of a checkpoint kept the gate shut, withdrawn ones among them.
            pub barrier: TimesSeen,
            /// How long a transaction waited at a shut gate.
            pub gate: TimesSeen,
            /// How long a transaction waited for room in the arena.
            pub throttle: TimesSeen,
        }

        impl Stats {
            /// Their values now.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    transactions: self.sum(|each| &each.transactions),
                    bytes_consistency: self.sum(|each| &each.bytes_consistency),
                    bytes_dirty: self.sum(|each| &each.bytes_dirty),
                    bytes_full_pages: self.sum(|each| &each.bytes_full_pages),
                    dirty_sizes: core::array::from_fn(|i| self.dirty_sizes[i].load(Ordering::Relaxed)),
                    barrier: self.barrier.seen(),
                    gate: self.gate.seen(),
                    throttle: self.throttle.seen(),
                }
            }
        }
    };
}

counters! {
    /// Groups written to the log.
    groups,
    /// Flushes for fsync and sync.
    flushes,
    /// Checkpoints written.
    checkpoints,
    /// Metablock copies read from the device.
    fetched,
    /// Metadata copies that were bad when read.
    bad_copies,
    /// Clean frames that were found scribbled when they were evicted, and dropped.
    scribbles_dropped,
    /// Frames that the code repaired (S-15.14).
    repaired,
    /// Frames that were made anew from device, log and redo (S-15.16).
    rebuilt,
    /// Clean frames that were damaged and read again from the device.
    read_again,
    /// Repairs that the code offered and that would have changed bytes just written (S-15.11).
    /// Pages of metadata and file data that were read and had a wrong checksum.
    bad_checksums,
    /// Bytes written because a frame was evicted (only clean ones are, so 0).
    bytes_eviction,
    /// Bytes written by checkpoints.
    bytes_checkpoint,
    /// Bytes written for persistence: log pages.
    bytes_persistence,
    /// Payload bytes of the log, after compaction.
    bytes_compacted,
    /// Metablocks that groups changed, each once a group: what is written whole without compaction (ReconFS Table 3).
    updated_pages,
    /// Bytes of the update records that groups have instead, with their heads.
    updated_bytes,
    /// Barriers that opened again because a transaction did not end in time (S-10.1).
    barriers_withdrawn,
    /// Transactions that a barrier told to abort and run again.
    told_to_abort,
    /// Pages of the largest group written to the log.
    group_pages_max,
}

/// Errors of the device since the pool was opened, by class as zpool(8) counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceErrors {
    /// Reads that failed.
    pub reads: u64,
    /// Writes that failed.
    pub writes: u64,
    /// Flushes that failed.
    pub flushes: u64,
    /// Pages that were read and had a wrong checksum.
    pub checksums: u64,
}

impl DeviceErrors {
    /// Whether there was any.
    pub fn any(&self) -> bool {
        *self != DeviceErrors::default()
    }
}

/// What transactions of some threads count.
#[derive(Default)]
struct Each {
    transactions: AtomicU64,
    bytes_consistency: AtomicU64,
    bytes_dirty: AtomicU64,
    bytes_full_pages: AtomicU64,
}

impl Stats {
    fn sum(&self, which: impl Fn(&Each) -> &AtomicU64) -> u64 {
        self.each.iter().map(|each| which(each).load(Ordering::Relaxed)).sum()
    }

    /// Counts a transaction.
    #[inline]
    pub fn committed(&self) {
        self.each[stripe()].transactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the ranges (from, to) of metablocks that a transaction changed.
    #[inline]
    pub fn ranges_dirtied<'r>(&self, metablocks: impl Iterator<Item = &'r [(u16, u16)]>) {
        let (mut bytes, mut pages) = (0, 0);
        for ranges in metablocks {
            bytes += ranges.iter().map(|(from, to)| u64::from(to - from)).sum::<u64>();
            pages += PAGE as u64;
        }
        let each = &self.each[stripe()];
        each.bytes_dirty.fetch_add(bytes, Ordering::Relaxed);
        each.bytes_full_pages.fetch_add(pages, Ordering::Relaxed);
    }

    /// Counts what a transaction changed besides.
    #[inline]
    pub fn bytes_dirtied(&self, records: &[Record]) {
        let bytes = records.iter().map(|record| match record {
            Record::MapEntry { crcs, .. } => 40 + 4 * crcs.len() as u64,
            Record::Alloc { .. } | Record::Free { .. } | Record::Ref { .. } => 20,
            _ => 0,
        });
        let each = &self.each[stripe()];
        each.bytes_consistency.fetch_add(bytes.sum(), Ordering::Relaxed);
    }

    /// Counts a group.
    pub fn persisted(&self, payload: usize, pages: u64, updates: &Updates) {
        self.updated_pages.fetch_add(updates.pages, Ordering::Relaxed);
        self.updated_bytes.fetch_add(updates.bytes, Ordering::Relaxed);
        for (sum, count) in self.dirty_sizes.iter().zip(updates.dirty_sizes) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.bytes_compacted.fetch_add(payload as u64, Ordering::Relaxed);
        self.bytes_persistence.fetch_add(pages * PAGE as u64, Ordering::Relaxed);
        self.group_pages_max.fetch_max(pages, Ordering::Relaxed);
    }
}
