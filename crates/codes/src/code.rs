//! What a code over frames is (S-15.1): encode, follow a change, verify, locate; and the verdicts it gives (S-15.10).
//!
//! Two rules hold the whole together. Parity and sum follow changes and are encoded only from [`Verified`] content
//! (S-15.3): whoever encodes what he did not verify blesses a stray write. And a correction counts only if the sum
//! confirms it: parity alone takes equal damage in two places for damage of its own.

use core::fmt;
use core::ops::Range;

use crate::line::{self, LINES};
use crate::{FRAME, crc64};

/// A frame's content from which parity and sum may be encoded (S-15.3).
#[derive(Clone, Copy)]
pub struct Verified<'d> {
    data: &'d [u8; FRAME],
    crc: u64,
}

impl<'d> Verified<'d> {
    /// `data`, if its CRC-64 is `crc`, which the caller has from elsewhere than from these bytes.
    pub fn by_crc(data: &'d [u8; FRAME], crc: u64) -> Option<Self> {
        (crc64::full(data) == crc).then_some(Self { data, crc })
    }

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

    /// What is wrong, if anything. Writes nothing: the caller applies a repair to a private copy, and only where
    /// S-15.11 allows it.
    fn locate(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> Verdict;
}

/// The most bytes of parity that a frame has under any code (evenodd64).
pub const PARITY_MAX: usize = FRAME / 2;

#[inline]
pub(crate) fn xor_into(word: &mut [u8; 8], xor: u64) {
    *word = (u64::from_le_bytes(*word) ^ xor).to_le_bytes();
}

/// What a frame, its parity and its sum say together (S-15.10).
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one a damage, on the stack: this floor has no heap"
)]
pub enum Verdict {
    /// All agree.
    Clean,
    /// The sum confirms the bytes; the parity is to be encoded anew.
    ParityBad,
    /// Parity agrees with the bytes, and the sum differs in one or two bits from what it should be.
    SumBad {
        /// The sum of the bytes.
        right: u64,
    },
    /// The one pattern of the code that agrees with parity and is confirmed by the sum.
    Repair(Repair),
    /// Several patterns are confirmed.
    Ambiguous,
    /// Beyond the code.
    Uncorrectable {
        /// Whether parity (if the code has any) agrees with the bytes: then sum or bytes are wrong in a way that parity
        /// cannot see, such as equal damage in two places.
        parity_agrees: bool,
    },
}

/// What to XOR over a frame's bytes to have those that its sum confirms.
#[derive(Clone, PartialEq, Eq)]
pub struct Repair {
    xor: [u8; FRAME],
}

impl Repair {
    /// A pattern that was confirmed.
    pub(crate) fn of(xor: [u8; FRAME]) -> Self {
        Self { xor }
    }

    /// The pattern, if the sum confirms what it makes of `data`.
    pub(crate) fn confirmed(data: &[u8; FRAME], xor: [u8; FRAME], crc: u64) -> Option<Self> {
        let repair = Self { xor };
        let mut copy = *data;
        repair.apply(&mut copy);
        (crc64::full(&copy) == crc).then_some(repair)
    }

    /// Corrects a private copy of the bytes that were judged.
    pub fn apply(&self, copy: &mut [u8; FRAME]) {
        for (byte, xor) in copy.iter_mut().zip(&self.xor) {
            *byte ^= xor;
        }
    }

    /// Old XOR right bytes.
    pub fn xor(&self) -> &[u8; FRAME] {
        &self.xor
    }

    /// The runs of bytes that it changes, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let start = from + self.xor[from..].iter().position(|byte| *byte != 0)?;
            let len = self.xor[start..].iter().take_while(|byte| **byte != 0).count();
            from = start + len;
            Some(start..from)
        })
    }

    /// From the first to the last byte that it changes.
    pub fn extent(&self) -> Range<usize> {
        let first = self.xor.iter().position(|byte| *byte != 0);
        let last = self.xor.iter().rposition(|byte| *byte != 0);
        first.unwrap_or(0)..last.map_or(0, |last| last + 1)
    }

    /// Whether it changes a byte of `range` (S-15.11: if that range was written since the frame was last verified, the
    /// repair must not be applied on the code's word).
    pub fn touches(&self, range: Range<usize>) -> bool {
        let end = range.end.min(FRAME);
        self.xor[range.start.min(end)..end].iter().any(|byte| *byte != 0)
    }

    /// Number of bits that it flips.
    pub fn bits(&self) -> u32 {
        self.xor.iter().map(|byte| byte.count_ones()).sum()
    }
}

impl fmt::Debug for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges()).finish()
    }
}

/// The patterns of a list decoder that the sum confirms.
pub(crate) struct Search<'d> {
    data: &'d [u8; FRAME],
    crc: u64,
    found: Option<Repair>,
    several: bool,
}

impl<'d> Search<'d> {
    pub(crate) fn new(data: &'d [u8; FRAME], crc: u64) -> Self {
        let (found, several) = (None, false);
        Self {
            data,
            crc,
            found,
            several,
        }
    }

    /// Takes a pattern whose delta equals the syndrome of the sum; all bytes are judged once more.
    pub(crate) fn offer(&mut self, pattern: [u8; FRAME]) {
        let Some(repair) = Repair::confirmed(self.data, pattern, self.crc) else {
            return;
        };
        match &self.found {
            None => self.found = Some(repair),
            Some(found) => self.several |= *found != repair,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_none()
    }

    pub(crate) fn verdict(self, parity_agrees: bool) -> Verdict {
        match self.found {
            Some(_) if self.several => Verdict::Ambiguous,
            Some(repair) => Verdict::Repair(repair),
            None => Verdict::Uncorrectable { parity_agrees },
        }
    }
}

/// The verdict on a sum alone: `syndrome` is the sum of the bytes XOR the sum kept, and nothing but the sum is wrong.
pub(crate) fn sum_bad(syndrome: u64, sum: u64) -> Option<Verdict> {
    let few = (1..=2).contains(&syndrome.count_ones());
    few.then_some(Verdict::SumBad { right: sum ^ syndrome })
}

/// The verdict of a code whose parity can tell whether it `agrees` with the bytes, where no search is needed (S-15.10).
pub(crate) fn without_search(syndrome: u64, agrees: bool, sum: u64) -> Option<Verdict> {
    match (syndrome, agrees) {
        (0, true) => Some(Verdict::Clean),
        (0, false) => Some(Verdict::ParityBad),
        (_, true) => Some(sum_bad(syndrome, sum).unwrap_or(Verdict::Uncorrectable { parity_agrees: true })),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
