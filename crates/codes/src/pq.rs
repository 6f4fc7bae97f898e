//! `pq`: two parity rows over GF(2^8) beside the CRC-64 (S-15.7). Of any two rows the parities give the bytes, and the
//! sums of lines tell which they are (S-15.21).

use crate::code::{Code, Verified};
use crate::gf256::{self, POWERS};
use crate::rows::{self, ROW, ROW_WORDS};
use crate::{FRAME, change, crc64};

/// The code `pq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pq;

impl Code for Pq {
    #[inline]
    fn parity_len(self) -> usize {
        2 * ROW
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        let (p, q) = rows::pq(rows::of(content.data()));
        parity[..ROW].copy_from_slice(&p);
        parity[ROW..].copy_from_slice(&q);
        content.crc()
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], mut fold: impl FnMut(usize, u64)) {
        let factor = |word: usize| POWERS[word / ROW_WORDS];
        if new.len() <= ROW {
            return change::words(offset, old, new, |word, xor| {
                fold(word % ROW_WORDS, xor);
                fold(ROW_WORDS + word % ROW_WORDS, gf256::times(factor(word), xor));
            });
        }
        let mut both = [0u64; 2 * ROW_WORDS];
        change::words(offset, old, new, |word, xor| {
            both[word % ROW_WORDS] ^= xor;
            both[ROW_WORDS + word % ROW_WORDS] ^= gf256::times(factor(word), xor);
        });
        for (word, xor) in both.into_iter().enumerate() {
            fold(word, xor);
        }
    }

    #[inline]
    fn fold_word(self, index: usize, xor: u64, mut fold: impl FnMut(usize, u64)) {
        let (row, word) = (index / ROW_WORDS, index % ROW_WORDS);
        fold(word, xor);
        fold(ROW_WORDS + word, gf256::times(POWERS[row], xor));
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        let (p, q) = rows::pq(rows::of(data));
        crc64::full(data) == sum && p[..] == parity[..ROW] && q[..] == parity[ROW..]
    }
}
