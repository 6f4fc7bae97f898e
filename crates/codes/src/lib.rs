//! Keepfs codes: the arithmetic that guards every frame and every data page (no_std, no allocation; SPEC section 15).
//!
//! * [`crc64`]: CRC-64/NVME, the checksum of metadata frames and log records. It is linear over
//!   GF(2), so a small change of a frame changes its checksum by a value that depends only on the
//!   changed bytes and their place ([`crc64::delta`]).
//! * [`crc32c`]: CRC-32C, the checksum of data pages.
//! * [`burst`]: a few wrong bits side by side in bytes that end with their CRC-64, found from it alone.
//! * [`Code`]: what keeps parity and sum of a frame: [`pcrc`] (the default), [`pq`], [`evenodd`] and [`adler`] (the
//!   papers' codes), [`crc`]; [`Protection`] chooses one by name.
//! * [`identity`]: whose sum it is and who may change it.
//! * [`mod@line`]: sums of the lines of a frame, each of which can be verified by itself; [`mend`]: a [`Verdict`] by them says
//!   what is wrong. Nothing here writes to a frame.
//! * [`keyed`]: a second sum of a frame, with places that are drawn, against changes that leave the CRC as it is.
//! * [`digest`]: multiset digests of the audits.
//!
//! ```
//! use keepfs_codes::{Code, FRAME, Protection, Verdict, Verified, line, mend};
//!
//! let code = Protection::Pcrc;
//! let mut frame = [7; FRAME];
//! let mut parity = vec![0; code.parity_len()];
//! let mut sum = code.encode(Verified::made(&frame), &mut parity);
//! let mut sums = line::sums(&frame);
//!
//! // A legal change: parity and sums follow.
//! code.update(&mut parity, &mut sum, 1000, &[7, 7], b"ab");
//! sums[line::at(1000)] ^= code.fragment(1000, &[7, 7], b"ab");
//! frame[1000..1002].copy_from_slice(b"ab");
//! assert!(code.verify(&frame, &parity, sum));
//! assert_eq!(line::crc(&sums), sum);
//!
//! let right = frame;
//! frame[2000..2064].fill(0xee); // a stray write over the end of a line
//! let known = |bytes: &[u8; FRAME]| *bytes == right; // by a second sum
//! let Verdict::Repair(repair) = mend::locate(code, &frame, &parity, &sums, known) else {
//!     panic!("64 bytes are within the code");
//! };
//! assert!(repair.ranges().eq([2000..2064]));
//! repair.apply(&mut frame);
//! assert_eq!(frame, right);
//! ```
//!
//! Each function picks the widest instruction set once per call from a cached detection; all paths
//! give equal results (proved by test). Targets without SSE (kernels, firmware) have the portable path alone. `unsafe`
//! lives in `simd.rs` and `simd/` alone.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod adler;
mod aes;
pub mod burst;
mod change;
mod code;
pub mod crc;
pub mod crc32c;
pub mod crc64;
pub mod digest;
pub mod evenodd;
mod flips;
mod gf256;
pub mod identity;
pub mod keyed;
pub mod line;
pub mod mend;
pub mod pcrc;
pub mod pq;
mod protection;
mod rows;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod simd;
mod tables;
#[cfg(test)]
mod testing;
mod verdict;

pub use code::{Code, PARITY_MAX, Verified};
pub use protection::{Protection, UnknownCode};
pub use verdict::{Repair, Verdict};

/// Bytes of a frame: the unit that carries one CRC-64 and for which deltas are computed.
pub const FRAME: usize = 4096;
