//! `pcrc`, the default: one parity row of 64 bytes beside the CRC-64 (S-15.6). Of a burst of up to 64 bytes, at whatever
//! place, parity gives the bytes and the sums of lines the place (S-15.21).

use crate::code::{Code, Verified};
use crate::rows::{self, ROW, ROW_WORDS};
use crate::{FRAME, change, crc64};

/// The code `pcrc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pcrc;

impl Code for Pcrc {
    #[inline]
    fn parity_len(self) -> usize {
        ROW
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        parity.copy_from_slice(&rows::p(rows::of(content.data())));
        content.crc()
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], mut fold: impl FnMut(usize, u64)) {
        if new.len() <= ROW {
            return change::words(offset, old, new, |word, xor| fold(word % ROW_WORDS, xor));
        }
        let mut row = [0u64; ROW_WORDS];
        change::words(offset, old, new, |word, xor| row[word % ROW_WORDS] ^= xor);
        for (word, xor) in row.into_iter().enumerate() {
            fold(word, xor);
        }
    }

    #[inline]
    fn fold_word(self, index: usize, xor: u64, mut fold: impl FnMut(usize, u64)) {
        fold(index % ROW_WORDS, xor);
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        crc64::full(data) == sum && rows::p(rows::of(data))[..] == *parity
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
