//! A run of wrong bits in bytes that end with their CRC-64, found from the sum alone (S-9.24).
//!
//! What is wrong is a polynomial e, and stored sum XOR computed sum is its *syndrome*, e mod P, whatever the bytes are. A run of
//! few bits is a short polynomial times a power of x: the syndrome is divided by x again and again until it is short.

use crate::crc64;
use crate::tables::NVME;

/// Most bits from the first wrong one to the last.
pub const LONGEST: u32 = 16;

/// Bytes by which one look is ahead of the last: two looks share [`LONGEST`] bits, so a run lies within one of them.
const STEP: usize = 6;

/// x^(-8 [`STEP`] - 1); the missing power of x comes from [`crc64::product`].
const BACK: u64 = back();

const fn back() -> u64 {
    let mut value = NVME.power(0);
    let mut bit = 0;
    while bit < 8 * STEP + 1 {
        value = NVME.back(value);
        bit += 1;
    }
    value
}

/// A run of wrong bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Burst {
    /// The first of them: eight times its byte, and its number in it (bit 0 is the least significant).
    pub first: usize,
    /// Which of the bits from it on are wrong, bit 0 of this being the first.
    pub wrong: u16,
}

impl Burst {
    /// The run whose undoing makes the CRC-64 right that stands, little-endian, in the last 8 of `len` bytes; `syndrome` is that
    /// sum XOR the one that was computed. There is at most one up to 4096 bytes (proved by test).
    pub fn find(syndrome: u64, len: usize) -> Option<Burst> {
        all(syndrome, len).next()
    }

    /// The wrong bits: byte, and bit in the byte.
    pub fn bits(self) -> impl Iterator<Item = (usize, u8)> {
        let wrong = (0..LONGEST as usize).filter(move |bit| self.wrong >> bit & 1 == 1);
        wrong.map(move |bit| ((self.first + bit) / 8, ((self.first + bit) % 8) as u8))
    }

    /// Flips them.
    ///
    /// # Panics
    /// If the bytes are fewer than those it was found for.
    pub fn flip(self, bytes: &mut [u8]) {
        self.bits().for_each(|(byte, bit)| bytes[byte] ^= 1 << bit);
    }
}

/// Every run with this syndrome, some of them twice.
fn all(syndrome: u64, len: usize) -> impl Iterator<Item = Burst> {
    // Word `rest`, whose first byte stands at `end - 8`, has the syndrome, too.
    let looks = core::iter::successors(Some((len, syndrome)), |(end, rest)| {
        let end = end.checked_sub(STEP).filter(|end| *end > 0)?;
        Some((end, crc64::product(*rest, BACK)))
    });
    looks.filter_map(|(end, rest)| {
        let first = (8 * end + rest.trailing_zeros() as usize).checked_sub(64)?;
        let wrong = rest.checked_shr(rest.trailing_zeros())?;
        Some(Burst {
            first,
            wrong: u16::try_from(wrong).ok()?,
        })
    })
}

#[cfg(test)]
mod tests;
