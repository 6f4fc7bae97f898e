//! `pq`: two parity rows over GF(2^8) beside the CRC-64 (S-15.7). Any two of the 64 rows are located by trying every
//! pair: the parities give their bytes, the CRC confirms the pair.
//!
//! The bytes that a pair asks for are a product of the parities' damage with a constant, and the CRC is linear: one
//! table of the deltas of all 256 products makes a trial two look-ups and one multiplication. 2,144 hypotheses: damage
//! beyond the code is taken for two rows with probability below 2^-52.

use crate::code::{Code, Search, Verdict, Verified, without_search};
use crate::gf256::{self, INVERSES, POWERS};
use crate::rows::{self, ROW, ROW_WORDS, Row};
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

    fn locate(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> Verdict {
        let (p, q) = rows::pq(rows::of(data));
        let damage = Damage {
            p: rows::xor(&p, &parity[..ROW]),
            q: rows::xor(&q, &parity[ROW..]),
        };
        let agrees = damage.p == [0; ROW] && damage.q == [0; ROW];
        let syndrome = crc64::full(data) ^ sum;
        if let Some(verdict) = without_search(syndrome, agrees, sum) {
            return verdict;
        }
        let mut search = Search::new(data, sum);
        damage.rows(syndrome, &mut search);
        search.verdict(false)
    }
}

/// What the parities say beside the bytes: P and Q of the damage.
struct Damage {
    p: Row,
    q: Row,
}

impl Damage {
    /// Offers every damage of one or two rows, or of one row and one of the parities, whose delta is `syndrome`.
    fn rows(&self, syndrome: u64, search: &mut Search<'_>) {
        let moved = rows::moved_down(syndrome);
        let (of_p, of_q) = (Products::of(&self.p), Products::of(&self.q));
        for (row, moved) in moved.iter().enumerate() {
            // The row and Q are bad (or the row alone), the row and P are bad.
            let power = INVERSES[POWERS[row] as usize];
            if of_p.delta(1) == *moved {
                search.offer(pattern(&[(row, self.p)]));
            }
            if of_q.delta(power) == *moved {
                search.offer(pattern(&[(row, rows::times(power, &self.q))]));
            }
        }
        for (second, moved) in moved.iter().enumerate() {
            for first in 0..second {
                let (k, kg) = solution(first, second);
                let delta = of_q.delta(k) ^ of_p.delta(kg);
                // As deltas of the row `second`, moved to the last row.
                if rows::moved_up(delta, second - first) ^ delta ^ of_p.delta(1) == *moved {
                    let (a, b) = self.pair(k, kg);
                    // One row alone was offered above.
                    if a != [0; ROW] && b != [0; ROW] {
                        search.offer(pattern(&[(first, a), (second, b)]));
                    }
                }
            }
        }
    }

    /// The damage of both rows of a pair: a = k·Q + kg·P, b = P + a.
    fn pair(&self, k: u8, kg: u8) -> (Row, Row) {
        let a = rows::xor(&rows::times(k, &self.q), &rows::times(kg, &self.p));
        (a, rows::xor(&self.p, &a))
    }
}

/// With g = 3: k = 1 / (g^first + g^second) and k·g^second.
fn solution(first: usize, second: usize) -> (u8, u8) {
    let k = INVERSES[(POWERS[first] ^ POWERS[second]) as usize];
    (k, gf256::product(k, POWERS[second]))
}

fn pattern(parts: &[(usize, Row)]) -> [u8; FRAME] {
    let mut pattern = [0; FRAME];
    for (row, xor) in parts {
        pattern[row * ROW..][..ROW].copy_from_slice(xor);
    }
    pattern
}

/// The deltas of every product of a row with a constant, as changes of the last row.
struct Products([u64; 256]);

impl Products {
    fn of(row: &Row) -> Self {
        let mut table = [0; 256];
        for bit in 0..8 {
            table[1 << bit] = rows::delta_of_last(&rows::times(1 << bit, row));
        }
        for c in 1..256usize {
            let low = c & c.wrapping_neg();
            table[c] = table[low] ^ table[c ^ low];
        }
        Self(table)
    }

    #[inline]
    fn delta(&self, c: u8) -> u64 {
        self.0[c as usize]
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
