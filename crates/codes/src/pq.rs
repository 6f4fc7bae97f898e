//! `pq`: two parity lines over GF(2^8) beside the CRC-64 (S-15.7). Any two of the 64 lines are located by trying every
//! pair: the parities give their bytes, the CRC confirms the pair.
//!
//! The bytes that a pair asks for are a product of the parities' damage with a constant, and the CRC is linear: one
//! table of the deltas of all 256 products makes a trial two look-ups and one multiplication. 2,144 hypotheses: damage
//! beyond the code is taken for two lines with probability below 2^-52.

use crate::code::{Code, Search, Verdict, Verified, without_search};
use crate::gf256::{self, INVERSES, POWERS};
use crate::lines::{self, LINE, LINE_WORDS, Line};
use crate::{FRAME, change, crc64};

/// The code `pq`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pq;

impl Code for Pq {
    #[inline]
    fn parity_len(self) -> usize {
        2 * LINE
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        let (p, q) = lines::pq(lines::of(content.data()));
        parity[..LINE].copy_from_slice(&p);
        parity[LINE..].copy_from_slice(&q);
        content.crc()
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], mut fold: impl FnMut(usize, u64)) {
        let factor = |word: usize| POWERS[word / LINE_WORDS];
        if new.len() <= LINE {
            return change::words(offset, old, new, |word, xor| {
                fold(word % LINE_WORDS, xor);
                fold(LINE_WORDS + word % LINE_WORDS, gf256::times(factor(word), xor));
            });
        }
        let mut both = [0u64; 2 * LINE_WORDS];
        change::words(offset, old, new, |word, xor| {
            both[word % LINE_WORDS] ^= xor;
            both[LINE_WORDS + word % LINE_WORDS] ^= gf256::times(factor(word), xor);
        });
        for (word, xor) in both.into_iter().enumerate() {
            fold(word, xor);
        }
    }

    #[inline]
    fn fold_word(self, index: usize, xor: u64, mut fold: impl FnMut(usize, u64)) {
        let (line, word) = (index / LINE_WORDS, index % LINE_WORDS);
        fold(word, xor);
        fold(LINE_WORDS + word, gf256::times(POWERS[line], xor));
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        let (p, q) = lines::pq(lines::of(data));
        crc64::full(data) == sum && p[..] == parity[..LINE] && q[..] == parity[LINE..]
    }

    fn locate(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> Verdict {
        let (p, q) = lines::pq(lines::of(data));
        let damage = Damage {
            p: lines::xor(&p, &parity[..LINE]),
            q: lines::xor(&q, &parity[LINE..]),
        };
        let agrees = damage.p == [0; LINE] && damage.q == [0; LINE];
        let syndrome = crc64::full(data) ^ sum;
        if let Some(verdict) = without_search(syndrome, agrees, sum) {
            return verdict;
        }
        let mut search = Search::new(data, sum);
        damage.lines(syndrome, &mut search);
        search.verdict(false)
    }
}

/// What the parities say beside the bytes: P and Q of the damage.
struct Damage {
    p: Line,
    q: Line,
}

impl Damage {
    /// Offers every damage of one or two lines, or of one line and one of the parities, whose delta is `syndrome`.
    fn lines(&self, syndrome: u64, search: &mut Search<'_>) {
        let moved = lines::moved_down(syndrome);
        let (of_p, of_q) = (Products::of(&self.p), Products::of(&self.q));
        for (line, moved) in moved.iter().enumerate() {
            // The line and Q are bad (or the line alone), the line and P are bad.
            let power = INVERSES[POWERS[line] as usize];
            if of_p.delta(1) == *moved {
                search.offer(pattern(&[(line, self.p)]));
            }
            if of_q.delta(power) == *moved {
                search.offer(pattern(&[(line, lines::times(power, &self.q))]));
            }
        }
        for (second, moved) in moved.iter().enumerate() {
            for first in 0..second {
                let (k, kg) = solution(first, second);
                let delta = of_q.delta(k) ^ of_p.delta(kg);
                // As deltas of the line `second`, moved to the last line.
                if lines::moved_up(delta, second - first) ^ delta ^ of_p.delta(1) == *moved {
                    let (a, b) = self.pair(k, kg);
                    // One line alone was offered above.
                    if a != [0; LINE] && b != [0; LINE] {
                        search.offer(pattern(&[(first, a), (second, b)]));
                    }
                }
            }
        }
    }

    /// The damage of both lines of a pair: a = k·Q + kg·P, b = P + a.
    fn pair(&self, k: u8, kg: u8) -> (Line, Line) {
        let a = lines::xor(&lines::times(k, &self.q), &lines::times(kg, &self.p));
        (a, lines::xor(&self.p, &a))
    }
}

/// With g = 3: k = 1 / (g^first + g^second) and k·g^second.
fn solution(first: usize, second: usize) -> (u8, u8) {
    let k = INVERSES[(POWERS[first] ^ POWERS[second]) as usize];
    (k, gf256::product(k, POWERS[second]))
}

fn pattern(parts: &[(usize, Line)]) -> [u8; FRAME] {
    let mut pattern = [0; FRAME];
    for (line, xor) in parts {
        pattern[line * LINE..][..LINE].copy_from_slice(xor);
    }
    pattern
}

/// The deltas of every product of a line with a constant, as changes of the last line.
struct Products([u64; 256]);

impl Products {
    fn of(line: &Line) -> Self {
        let mut table = [0; 256];
        for bit in 0..8 {
            table[1 << bit] = lines::delta_of_last(&lines::times(1 << bit, line));
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
