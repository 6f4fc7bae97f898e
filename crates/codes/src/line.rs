//! Sums of the lines of a frame: 16 lines of 256 bytes, each with a CRC-64 of its own (S-15.20).
//!
//! The sum of a line is what the line adds to the CRC-64 of its frame: the CRC-64 of a frame is that of a frame of zeros
//! XOR the sums of all its lines, and the [`crc64::delta`] of a change that lies in one line is what the line's sum absorbs.
//! It is the CRC of 256 bytes times a power of x that the line's place gives, so it finds what a CRC of the line finds, and
//! it tells the place, too.

use crate::{FRAME, crc64};

/// Bytes of a line.
pub const LINE: usize = 256;
/// Lines of a frame.
pub const LINES: usize = FRAME / LINE;

/// The sum of line `number` of a frame with these bytes.
///
/// # Panics
/// If `number` is not below [`LINES`].
#[inline]
pub fn sum(number: usize, bytes: &[u8; LINE]) -> u64 {
    assert!(number < LINES, "a frame has 16 lines");
    crc64::added(number * (LINE / 8), bytes)
}

/// The sums of all lines of a frame.
pub fn sums(frame: &[u8; FRAME]) -> [u64; LINES] {
    let (lines, _) = frame.as_chunks::<LINE>();
    core::array::from_fn(|number| sum(number, &lines[number]))
}

/// The CRC-64 of the frame whose lines have these sums.
#[inline]
pub fn crc(sums: &[u64; LINES]) -> u64 {
    sums.iter().fold(crc64::of_zeros(), |crc, sum| crc ^ sum)
}

/// The line that has the byte at `offset` of a frame.
#[inline]
pub const fn at(offset: usize) -> usize {
    offset / LINE
}

#[cfg(test)]
mod tests;
