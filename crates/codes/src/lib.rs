//! Keepfs codes: the checksums that guard every frame and every data page (no_std, no allocation).
//!
//! * [`crc64`]: CRC-64/NVME, the checksum of metadata frames and log records. It is linear over
//!   GF(2), so a small change of a frame changes its checksum by a value that depends only on the
//!   changed bytes and their place ([`crc64::delta`]).
//! * [`crc32c`]: CRC-32C, the checksum of data pages.
//!
//! Each function picks the widest instruction set once per call from a cached detection; all paths
//! give equal results (proved by test). `unsafe` lives in `simd.rs` alone.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod crc32c;
pub mod crc64;
#[cfg(target_arch = "x86_64")]
mod simd;
mod tables;

/// Bytes of a frame: the unit that carries one CRC-64 and for which deltas are computed.
pub const FRAME: usize = 4096;
