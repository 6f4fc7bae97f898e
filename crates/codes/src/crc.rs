//! `crc`: the CRC-64 alone, without parity (S-15.1). It has distance 5 or more on a frame, so one or two flipped bits of a
//! line have a pattern of their own.
//!
//! Damage of more bits in a line is taken for two flips with probability 2^-43: 2^21 patterns against a 64-bit sum.

use crate::code::{Code, Verified};
use crate::{FRAME, crc64};

/// The code `crc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crc;

impl Code for Crc {
    #[inline]
    fn parity_len(self) -> usize {
        0
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        assert!(parity.is_empty(), "crc has no parity");
        content.crc()
    }

    #[inline]
    fn fold(self, _offset: usize, _old: &[u8], _new: &[u8], _fold: impl FnMut(usize, u64)) {}

    #[inline]
    fn fold_word(self, _index: usize, _xor: u64, _fold: impl FnMut(usize, u64)) {}

    fn verify(self, data: &[u8; FRAME], _parity: &[u8], sum: u64) -> bool {
        crc64::full(data) == sum
    }
}
