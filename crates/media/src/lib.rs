//! Keepfs media: the block devices that a pool lives on, real ones and simulated ones.
//!
//! * [`Device`]: what a pool needs of a medium; pages of 4096 bytes, written bytes counted per [`Class`].
//! * [`file`]: regular files and block devices; [`signature`] and [`mounts`] guard against overwriting
//!   or sharing what is somebody else's.
//! * [`ram`]: a sparse device in memory, for tests and measurements.
//! * [`sim`]: a recording device with planned faults; its head states the fault model.
//! * [`hook`]: a device between a pool and its medium that says only what it does besides, for tests.
//! * [`image`]: contents of a device as a persistent (cheaply copied) value.
//! * [`crash`]: the states a power cut may leave behind, enumerated from a recording.

mod counters;
pub mod crash;
mod device;
mod error;
pub mod file;
pub mod hook;
pub mod image;
mod loops;
pub mod mounts;
pub mod ram;
pub mod signature;
pub mod sim;
mod sys;

pub use counters::{Class, Counters, Traffic};
pub use device::{Device, PageNo};
pub use error::DeviceError;

/// Bytes of a page: the unit of every read, write and address (S-1.1).
pub const PAGE: usize = 4096;

/// [`PAGE`] as the 64-bit number that byte offsets are computed with.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;
