//! Changes of a frame that neither its sum nor its parity notices, worked out: everything that guards a frame is linear
//! (S-15.2), so such changes are the combinations of bits whose deltas cancel.

use super::Dice;
use keepfs_codes::{Code, Protection, crc64};
use keepfs_format::PAGE;

/// Changes that a code does not notice, within some bytes of a frame: every combination of them is one, too.
pub struct Neutral(Vec<Vec<(usize, u8)>>);

/// A set of bits of the window, and the deltas that it causes.
#[derive(Clone)]
struct Combination {
    deltas: Vec<u64>,
    bits: Vec<u64>,
}

impl Combination {
    fn absorb(&mut self, other: &Combination) {
        let pairs = self.deltas.iter_mut().zip(&other.deltas);
        let bits = self.bits.iter_mut().zip(&other.bits);
        pairs.chain(bits).for_each(|(to, from)| *to ^= from);
    }

    /// The first delta that is not zero: word and bit.
    fn lead(&self) -> Option<(usize, u32)> {
        let word = self.deltas.iter().position(|word| *word != 0)?;
        Some((word, self.deltas[word].trailing_zeros()))
    }
}

/// What one bit does: the CRC-64 first, then the words of parity.
fn deltas(code: Protection, byte: usize, bit: usize) -> Vec<u64> {
    let mut deltas = vec![0; 1 + code.parity_len() / 8];
    let (old, new) = ([0], [1u8 << bit]);
    deltas[0] = crc64::delta(byte, &old, &new);
    code.fold(byte, &old, &new, |word, xor| deltas[1 + word] ^= xor);
    deltas
}

impl Neutral {
    /// Those within the bytes of `window`.
    pub fn within(code: Protection, window: &[usize]) -> Neutral {
        let words = (window.len() * 8).div_ceil(64);
        let mut leads: Vec<((usize, u32), Combination)> = Vec::new();
        let mut found = Vec::new();
        for n in 0..window.len() * 8 {
            let mut bits = vec![0; words];
            bits[n / 64] |= 1 << (n % 64);
            let mut one = Combination {
                deltas: deltas(code, window[n / 8], n % 8),
                bits,
            };
            for ((word, bit), other) in &leads {
                if one.deltas[*word] >> bit & 1 == 1 {
                    one.absorb(other);
                }
            }
            match one.lead() {
                Some(lead) => leads.push((lead, one)),
                None => found.push(bytes_of(&one.bits, window)),
            }
        }
        Neutral(found)
    }

    /// Some combination of them, over `bytes`, which it changes. `false`: there is none.
    pub fn apply(&self, bytes: &mut [u8; PAGE], dice: &mut Dice) -> bool {
        let before = *bytes;
        while *bytes == before && !self.0.is_empty() {
            for change in &self.0 {
                if dice.once_in(2) {
                    change.iter().for_each(|(at, mask)| bytes[*at] ^= mask);
                }
            }
        }
        *bytes != before
    }
}

/// The bits of a combination as masks of the window's bytes.
fn bytes_of(bits: &[u64], window: &[usize]) -> Vec<(usize, u8)> {
    let mask = |n: usize| (bits[n / 8] >> (n % 8 * 8)) as u8;
    let all = window.iter().enumerate().map(|(n, at)| (*at, mask(n)));
    all.filter(|(_, mask)| *mask != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepfs_codes::Verified;

    /// Of each code: changed bytes, the same sum, the same parity.
    #[test]
    fn a_neutral_change_is_noticed_by_nobody() {
        let mut dice = Dice::new(4);
        let lines: Vec<usize> = (0..4)
            .flat_map(|line| (0..64).map(move |at| 1024 + line * 64 + at))
            .collect();
        for code in [Protection::Crc, Protection::Pcrc, Protection::Pq, Protection::Evenodd64] {
            let neutral = Neutral::within(code, &lines);
            let mut bytes: [u8; PAGE] = dice.bytes(PAGE).try_into().expect("a page");
            let mut parity = vec![0; code.parity_len()];
            let sum = code.encode(Verified::made(&bytes), &mut parity);
            let before = bytes;
            assert!(neutral.apply(&mut bytes, &mut dice), "{code}");
            assert!(bytes != before && code.verify(&bytes, &parity, sum), "{code}");
        }
    }
}
