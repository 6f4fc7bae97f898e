//! Keepfs media: the block devices that a pool lives on. Simulated ones stand in `keepfs-testkit`.
//!
//! * [`Device`]: what a pool needs of a medium; pages of 4096 bytes, written bytes counted per [`Class`].
//! * [`mod@file`]: regular files and block devices; [`signature`] and [`mounts`] guard against overwriting
//!   or sharing what is somebody else's.
//! * [`ram`]: a sparse device in memory, for tests and measurements.

mod counters;
mod device;
mod error;
pub mod file;
mod loops;
pub mod mounts;
pub mod ram;
pub mod signature;
mod sys;

pub use counters::{Class, Counters, Meter, Traffic};
pub use device::{Device, PageNo, check_range, check_span};
pub use error::{Access, DeviceError};

/// Bytes of a page: the unit of every read, write and address (S-1.1).
pub const PAGE: usize = 4096;

/// [`PAGE`] as the 64-bit number that byte offsets are computed with.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;
