//! Keepfs testkit: what tests judge by and run on. No product package depends on it, but as a dev-dependency.
//!
//! * [`model`]: the oracle, a file system in memory that is as simple as POSIX and Linux allow.
//! * [`ops`]: operations as values: generated, run, compared, shrunk, printed and read again.
//! * [`tree`]: all that a user can see of a file system as a comparable value.
//! * [`sim`]: a recording device with planned faults; its head states the fault model.
//! * [`hook`]: a device between a pool and its medium that says only what it does besides.
//! * [`image`]: contents of a device as a persistent (cheaply copied) value.
//! * [`crash`]: the states a power cut may leave behind, enumerated from a recording.

pub mod crash;
pub mod hook;
pub mod image;
pub mod model;
pub mod ops;
pub mod sim;
pub mod tree;

/// Bytes of a device's page, as the 64-bit number that byte offsets are computed with.
pub(crate) const PAGE_BYTES: u64 = keepfs_media::PAGE as u64;
