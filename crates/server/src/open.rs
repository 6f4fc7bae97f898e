//! How a pool is opened.

use crate::comparison::Comparison;
use keepfs_fs::{AccessTimes, ScrubOptions, StoreOptions, VolumeOptions};
use keepfs_store::{Equations, Guard};
use std::time::Duration;

/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Write nothing, not even to replay the log, which then happens in memory only.
    pub read_only: bool,
    /// Cut a log that is damaged before groups that were flushed (S-9.16); else such a pool is refused for writing.
    pub cut_log: bool,
    /// Bytes of memory for metadata, at least 16 MiB.
    pub arena_bytes: usize,
    /// A checkpoint empties the log when this much of it is left, percent.
    pub log_free_percent: u32,
    /// How metadata in memory is protected.
    pub guard: Guard,
    /// Equations that every transaction must satisfy to commit.
    pub audit: Equations,
    /// Everything is made durable at least this often.
    pub commit_interval: Duration,
    /// When reading stamps the access time.
    pub access_times: AccessTimes,
    /// Reading a directory stamps nothing.
    pub nodiratime: bool,
    /// Tell the device after each checkpoint which pages became free.
    pub discard: bool,
    /// Read and write the device past the kernel's page cache (O_DIRECT).
    pub direct: bool,
    /// What is done otherwise for comparison: nothing, in what is shipped (decision 0421).
    pub comparison: Comparison,
    /// Keep descriptors of the memory that another process can take up when this one has died ([`keepfs_fs::Volume::remains`]).
    pub lasting: bool,
    /// When memory and device are looked at by themselves.
    pub scrub: ScrubOptions,
    /// Seal the memory's mappings: right for a server, which opens one pool in its life; they are never given back.
    pub seal: bool,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            read_only: false,
            cut_log: false,
            arena_bytes: StoreOptions::default().arena_bytes,
            log_free_percent: StoreOptions::default().log_free_percent,
            guard: Guard::default(),
            audit: Equations::default(),
            commit_interval: Duration::from_secs(5),
            access_times: AccessTimes::default(),
            nodiratime: false,
            discard: false,
            direct: false,
            comparison: Comparison::default(),
            lasting: false,
            scrub: ScrubOptions::default(),
            seal: false,
        }
    }
}

impl OpenOptions {
    /// The same for the floor below.
    pub fn volume(&self) -> VolumeOptions {
        let mut options = VolumeOptions {
            store: StoreOptions {
                arena_bytes: self.arena_bytes,
                log_free_percent: self.log_free_percent,
                guard: self.guard,
                audit: self.audit,
                seal: self.seal,
                lasting: self.lasting,
                read_only: self.read_only,
                cut_log: self.cut_log,
                discard: self.discard,
                ..StoreOptions::default()
            },
            access_times: self.access_times,
            nodiratime: self.nodiratime,
            commit_interval: self.commit_interval,
            scrub: self.scrub,
            ..VolumeOptions::default()
        };
        self.comparison.apply(&mut options.store);
        options
    }
}
