//! What the store counts for `status`: writes by the four causes of ReconFS section 3.1.2, and events.

use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::PAGE;
use keepfs_format::plog::Record;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters, since the pool was opened.
        #[derive(Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// Their values at one moment.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// Their values now.
            pub fn snapshot(&self) -> Snapshot {
                Snapshot { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Transactions committed.
    transactions,
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
    /// Pages of metadata and file data that were read and had a wrong checksum.
    bad_checksums,
    /// Bytes written because a frame was evicted (only clean ones are, so 0).
    bytes_eviction,
    /// Bytes written by checkpoints.
    bytes_checkpoint,
    /// Bytes written for consistency: index entries of data pages and extent records, inside the log.
    bytes_consistency,
    /// Bytes written for persistence: log pages.
    bytes_persistence,
    /// Payload bytes of the log, after compaction.
    bytes_compacted,
    /// Bytes that transactions changed in metablocks.
    bytes_dirty,
    /// Bytes of whole pages that would have been written without compaction (ReconFS Table 3).
    bytes_full_pages,
    /// Longest time that a checkpoint kept transactions waiting, in nanoseconds.
    barrier_ns_max,
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

impl Stats {
    /// Counts the ranges (from, to) of a metablock that a transaction changed.
    pub fn ranges_dirtied(&self, ranges: &[(u16, u16)]) {
        let bytes: u64 = ranges.iter().map(|(from, to)| u64::from(to - from)).sum();
        self.bytes_dirty.fetch_add(bytes, Ordering::Relaxed);
        self.bytes_full_pages.fetch_add(PAGE as u64, Ordering::Relaxed);
    }

    /// Counts what a transaction changed besides.
    pub fn bytes_dirtied(&self, records: &[Record]) {
        for record in records {
            match record {
                Record::MapEntry { crcs, .. } => {
                    self.bytes_consistency
                        .fetch_add(40 + 4 * crcs.len() as u64, Ordering::Relaxed);
                }
                Record::Alloc { .. } | Record::Free { .. } | Record::Ref { .. } => {
                    self.bytes_consistency.fetch_add(20, Ordering::Relaxed);
                }
                _ => {}
            }
        }
    }

    /// Counts a group.
    pub fn persisted(&self, payload: usize, pages: usize, _transactions: usize) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.bytes_compacted.fetch_add(payload as u64, Ordering::Relaxed);
        self.bytes_persistence.fetch_add(pages as u64, Ordering::Relaxed);
    }
}
