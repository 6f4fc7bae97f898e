//! The keyed sum of a frame (S-15.18): a second sum whose places are random, so that nobody can work out a change that
//! leaves it as it is.
//!
//! It is the multilinear hash H = sum of w_i k_i over the 512 little-endian words of a frame, in the field of CRC-64/NVME,
//! whose polynomial is irreducible: for any change that is not drawn by who knows the keys, exactly one of 2^64 keys of a
//! changed word lets it pass. Linear as the CRC is, with the places drawn instead of powers of x: the same kernels, the same
//! merging by XOR.

use crate::FRAME;
use crate::change;
use crate::crc64::{self, Head, PADDING, WORDS, product, word_of};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;

/// The places of a frame's words, drawn at random: whoever knows them can make changes that pass.
pub struct Keys {
    /// One a word, and zeros that wide loads may meet.
    words: [u64; WORDS + PADDING],
    /// CRC-64 of the keys as they were drawn.
    crc: u64,
}

impl Keys {
    /// Keys of bytes from a source that nobody foresees.
    pub fn of(random: &[u8; FRAME]) -> Keys {
        let mut words = [0; WORDS + PADDING];
        let (drawn, _) = random.as_chunks::<8>();
        words
            .iter_mut()
            .zip(drawn)
            .for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        Keys {
            words,
            crc: crc64::full(random),
        }
    }

    /// Whether the keys are those that were drawn. Others fit no sum: a sum that does not agree says nothing then.
    pub fn are_whole(&self) -> bool {
        let mut drawn = [0; FRAME];
        let (chunks, _) = drawn.as_chunks_mut::<8>();
        chunks
            .iter_mut()
            .zip(&self.words)
            .for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        crc64::full(&drawn) == self.crc
    }

    /// A stray write into the keys, for tests.
    #[doc(hidden)]
    pub fn spoil(&mut self) {
        self.words[WORDS / 2] ^= 1 << 40;
    }

    fn drawn(&self) -> &[u64; WORDS] {
        self.words.first_chunk().expect("there are more")
    }

    /// The sum of a frame; 0 of zeros.
    pub fn sum(&self, data: &[u8; FRAME]) -> u64 {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        match simd::level() {
            simd::Level::Avx512(isa) => return isa.keyed(self.drawn(), data),
            simd::Level::Clmul(isa) => return isa.keyed(self.drawn(), data),
            simd::Level::Portable => {}
        }
        let (words, _) = data.as_chunks::<8>();
        let terms = words.iter().zip(self.drawn());
        terms.fold(0, |sum, (word, key)| sum ^ product(u64::from_le_bytes(*word), *key))
    }

    /// What to XOR into the sum of a frame when its bytes at `offset` change from `old` to `new`.
    ///
    /// # Panics
    /// If `old` and `new` differ in length or reach beyond the frame: a caller's error, not input.
    #[inline]
    pub fn delta(&self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        change::check(offset, old, new);
        let within = offset % 8;
        if !new.is_empty() && within + new.len() <= 8 {
            // Most changes: within a word.
            let xor = (word_of(old) ^ word_of(new)) << (8 * within);
            return product(xor, self.words[offset / 8]);
        }
        self.delta_anywhere(offset, old, new)
    }

    fn delta_anywhere(&self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        match Head::split(offset, old, new) {
            None => self.delta_aligned(offset / 8, old, new),
            Some(head) => {
                let rest = self.delta_aligned(head.index + 1, &old[head.len..], &new[head.len..]);
                product(head.xor, self.words[head.index]) ^ rest
            }
        }
    }

    /// The delta of bytes that begin at word `first`.
    fn delta_aligned(&self, first: usize, old: &[u8], new: &[u8]) -> u64 {
        if new.is_empty() {
            return 0;
        }
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        if let Some(delta) = crc64::delta_wide(&self.words, first, old, new) {
            return delta;
        }
        let mut sum = 0;
        change::words(first * 8, old, new, |index, xor| sum ^= product(xor, self.words[index]));
        sum
    }
}

#[cfg(test)]
mod tests;
