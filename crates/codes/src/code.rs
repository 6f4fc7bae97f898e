//! What a code over frames is (S-15.1): encode, follow a change, verify.
//!
//! Parity and sum follow changes and are encoded only from [`Verified`] content (S-15.3): whoever encodes what he did not
//! verify blesses a stray write. What is wrong with a frame, [`crate::mend`] says.

use crate::line::{self, LINES};
use crate::{FRAME, crc64};

/// A frame's content from which parity and sum may be encoded (S-15.3).
#[derive(Clone, Copy)]
pub struct Verified<'d> {
    data: &'d [u8; FRAME],
    crc: u64,
}

impl<'d> Verified<'d> {
    /// The sums of the lines of `data` (S-15.20), and the content, if they make the CRC-64 `crc`, which the caller has from
    /// elsewhere than from these bytes.
    pub fn by_lines(data: &'d [u8; FRAME], crc: u64) -> ([u64; LINES], Option<Self>) {
        let sums = line::sums(data);
        let content = (line::crc(&sums) == crc).then_some(Self { data, crc });
        (sums, content)
    }

    /// Content that the caller has just made in private memory: a birth, or an image that a rollback proved (S-13.6).
    pub fn made(data: &'d [u8; FRAME]) -> Self {
        let crc = crc64::full(data);
        Self { data, crc }
    }

    /// The bytes.
    pub fn data(self) -> &'d [u8; FRAME] {
        self.data
    }

    /// Their CRC-64 (S-1.2).
    pub fn crc(self) -> u64 {
        self.crc
    }
}

/// A code over frames. A value is small and copied; calls are as cheap as the arithmetic behind them.
///
/// Where a method takes parity, its length is [`Code::parity_len`]; where it takes a change, `old` and `new` have one
/// length and lie within the frame. Anything else is an error of the caller, not input, and panics.
pub trait Code: Copy {
    /// Bytes of parity of a frame: a multiple of 8, at most [`PARITY_MAX`].
    fn parity_len(self) -> usize;

    /// The sum of a frame, worked out from all its bytes: CRC-64, unless the code has its own.
    fn sum(self, data: &[u8; FRAME]) -> u64 {
        crc64::full(data)
    }

    /// Writes the parity of `content` and returns its sum.
    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64;

    /// What a sum absorbs (by [`Code::merge`]) when the bytes at `offset` change from `old` to `new`.
    #[inline]
    fn fragment(self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        crc64::delta(offset, old, new)
    }

    /// A sum with a fragment absorbed, or two fragments in one; the order does not matter. XOR for all codes but
    /// adler, so that one atomic XOR does it.
    #[inline]
    fn merge(self, sum: u64, fragment: u64) -> u64 {
        sum ^ fragment
    }

    /// Hands `fold` what to XOR into each word of parity (its number, little-endian value) for the same change; a word
    /// may come more than once. In shared memory each call is one atomic XOR.
    fn fold(self, offset: usize, old: &[u8], new: &[u8], fold: impl FnMut(usize, u64));

    /// [`Code::fragment`] of one aligned word (0..512, little-endian): of a pointer or a counter, as most changes are.
    #[inline]
    fn fragment_word(self, index: usize, old: u64, new: u64) -> u64 {
        crc64::delta_word(index, old ^ new)
    }

    /// [`Code::fold`] of one aligned word, whose XOR of old and new is `xor`.
    fn fold_word(self, index: usize, xor: u64, fold: impl FnMut(usize, u64));

    /// [`Code::fragment`] and [`Code::fold`] at once, on memory that nobody else changes.
    #[inline]
    fn update(self, parity: &mut [u8], sum: &mut u64, offset: usize, old: &[u8], new: &[u8]) {
        *sum = self.merge(*sum, self.fragment(offset, old, new));
        let (words, _) = parity.as_chunks_mut::<8>();
        self.fold(offset, old, new, |word, xor| xor_into(&mut words[word], xor));
    }

    /// Whether parity and sum agree with the bytes.
    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool;
}

/// The most bytes of parity that a frame has under any code (evenodd64).
pub const PARITY_MAX: usize = FRAME / 2;

#[inline]
pub(crate) fn xor_into(word: &mut [u8; 8], xor: u64) {
    *word = (u64::from_le_bytes(*word) ^ xor).to_le_bytes();
}

#[cfg(test)]
pub(crate) mod tests;
