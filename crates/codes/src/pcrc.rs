//! `pcrc`, the default: one parity row of 64 bytes beside the CRC-64 (S-15.6). Any unaligned burst of up to 64 bytes is
//! located by trying every place it can have: parity gives its bytes, the CRC confirms the place.
//!
//! 4,033 places against a 64-bit sum: damage beyond the code is taken for a burst with probability 4,033 / 2^64.

use crate::code::{Code, Search, Verdict, Verified, sum_bad};
use crate::rows::{self, ROW, ROW_WORDS, ROWS, Row};
use crate::{FRAME, change, crc64, flips};

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

    fn locate(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> Verdict {
        let damage = rows::xor(&rows::p(rows::of(data)), parity);
        let agrees = damage == [0; ROW];
        let syndrome = crc64::full(data) ^ sum;
        match (syndrome, agrees) {
            (0, true) => return Verdict::Clean,
            (0, false) => return Verdict::ParityBad,
            _ => {}
        }
        if let Some(verdict) = sum_bad(syndrome, sum).filter(|_| agrees) {
            return verdict;
        }
        let mut search = Search::new(data, sum);
        bursts(&damage, syndrome, &mut search);
        if search.is_empty() {
            flips_in_parity(&damage, syndrome, &mut search);
        }
        search.verdict(agrees)
    }
}

/// Offers every burst of up to 64 bytes whose parity is `damage` and whose delta is `syndrome`: bytes `cut..64` of one
/// row and `0..cut` of the next.
fn bursts(damage: &Row, syndrome: u64, search: &mut Search<'_>) {
    let moved = rows::moved_down(syndrome);
    let whole = rows::delta_of_last(damage);
    for (row, _) in moved.iter().enumerate().filter(|(_, delta)| **delta == whole) {
        search.offer(burst(damage, row, 0));
    }
    // The delta of the burst that begins in the last row but one.
    let mut delta = rows::moved_up(whole, 1);
    for cut in 1..ROW {
        let byte = u64::from(damage[cut - 1]) << (8 * ((cut - 1) % 8));
        let word = (cut - 1) / 8;
        delta ^= crc64::delta_word((ROWS - 2) * ROW_WORDS + word, byte);
        delta ^= crc64::delta_word((ROWS - 1) * ROW_WORDS + word, byte);
        // A byte that is right is as well in one row as in the other.
        if byte == 0 {
            continue;
        }
        for (second, _) in moved.iter().enumerate().skip(1).filter(|(_, moved)| **moved == delta) {
            search.offer(burst(damage, second - 1, cut));
        }
    }
}

fn burst(damage: &Row, row: usize, cut: usize) -> [u8; FRAME] {
    let mut pattern = [0; FRAME];
    let start = row * ROW;
    pattern[start + cut..start + ROW].copy_from_slice(&damage[cut..]);
    if cut > 0 {
        pattern[start + ROW..start + ROW + cut].copy_from_slice(&damage[..cut]);
    }
    pattern
}

/// Two flipped bits far apart: their parity has two bits, or none if they stand at one place of their rows.
fn flips_in_parity(damage: &Row, syndrome: u64, search: &mut Search<'_>) {
    let bits: u32 = damage.iter().map(|byte| byte.count_ones()).sum();
    if bits != 0 && bits != 2 {
        return;
    }
    let agrees = |pattern: &[u8; FRAME]| rows::p(rows::of(pattern)) == *damage;
    if let Some(pattern) = flips::pair(syndrome).filter(agrees) {
        search.offer(pattern);
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
