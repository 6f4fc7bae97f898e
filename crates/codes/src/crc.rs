//! `crc`: the CRC-64 alone, without parity (S-15.1). It has distance 5 or more on a frame, so one or two flipped bits, in
//! the frame or in the sum, have a pattern of their own.
//!
//! Damage of more bits is taken for two flips with probability 2^-35: 2^29 patterns against a 64-bit sum.

use crate::code::{Code, Search, Verdict, Verified, sum_bad};
use crate::{FRAME, crc64, flips};

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

    fn locate(self, data: &[u8; FRAME], _parity: &[u8], sum: u64) -> Verdict {
        let syndrome = crc64::full(data) ^ sum;
        if syndrome == 0 {
            return Verdict::Clean;
        }
        if let Some(verdict) = sum_bad(syndrome, sum) {
            return verdict;
        }
        let mut search = Search::new(data, sum);
        let one = flips::single(syndrome).map(|bit| flips::pattern(&[bit]));
        if let Some(pattern) = one.or_else(|| flips::pair(syndrome)) {
            search.offer(pattern);
        }
        search.verdict(true)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
