//! `evenodd64` and `evenodd256`: EVENODD of m = 17 over the blocks of a frame, as Greenan & Miller use it (S-15.8), with
//! the CRC-64 to confirm what the decoder thinks.
//!
//! With the CRC any two columns of a block are corrected where the paper's library corrects one: the parities give the
//! bytes of every pair, the CRC confirms the pair. At most 153 hypotheses a block, 23,409 for two blocks: damage beyond
//! the code is taken for correctable with probability below 2^-49, and then the sum of each line must agree, too.

pub mod block;
mod ring;

use crate::code::{Code, Verified};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;
use crate::{FRAME, change, crc64};
use block::{Blind, COLUMN, Decoder, PARITY, Syndrome};

/// Columns of a frame.
const COLUMNS: usize = FRAME / COLUMN;
/// Most blocks of a frame.
const BLOCKS_MAX: usize = COLUMNS / 4;
/// Most hypotheses about a block: parity alone, a column with P or Q, two columns (k = 16).
const HYPOTHESES_MAX: usize = 1 + 2 * 16 + 16 * 15 / 2;

/// The codes `evenodd64` and `evenodd256`: EVENODD(96, 64) and EVENODD(288, 256).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evenodd {
    /// Blocks of 64 bytes: 4 columns.
    Blocks64,
    /// Blocks of 256 bytes: 16 columns.
    Blocks256,
}

impl Evenodd {
    /// Columns of a block: k.
    #[inline]
    pub fn columns(self) -> usize {
        match self {
            Self::Blocks64 => 4,
            Self::Blocks256 => 16,
        }
    }

    /// Blocks of a frame.
    #[inline]
    pub fn blocks(self) -> usize {
        COLUMNS / self.columns()
    }

    /// Writes the parity of every block.
    fn parities(self, data: &[u8; FRAME], parities: &mut [[u8; PARITY]]) {
        let (columns, _) = data.as_chunks::<COLUMN>();
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        match simd::level() {
            simd::Level::Avx512(isa) => return isa.evenodd(crate::rows::of(data), parities),
            simd::Level::Clmul(isa) => return isa.evenodd(columns, parities),
            simd::Level::Portable => {}
        }
        for (columns, parity) in columns.chunks(self.columns()).zip(parities) {
            let (p, q) = ring::parities(columns);
            *parity = block::join(p, q);
        }
    }

    /// The parity that the bytes have, in the first [`Evenodd::blocks`] places.
    fn own(self, data: &[u8; FRAME]) -> [[u8; PARITY]; BLOCKS_MAX] {
        let mut own = [[0; PARITY]; BLOCKS_MAX];
        self.parities(data, &mut own[..self.blocks()]);
        own
    }
}

impl Code for Evenodd {
    #[inline]
    fn parity_len(self) -> usize {
        PARITY * self.blocks()
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        self.parities(content.data(), self.stored_mut(parity));
        content.crc()
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], mut fold: impl FnMut(usize, u64)) {
        change::columns(offset, old, new, |column, xor| {
            // The four words of a block's parity: P, then Q.
            let word = column / self.columns() * (PARITY / 8);
            let diagonal = ring::times_x(xor, column % self.columns());
            let parts = [xor as u64, (xor >> 64) as u64, diagonal as u64, (diagonal >> 64) as u64];
            for (place, part) in parts.into_iter().enumerate().filter(|(_, part)| *part != 0) {
                fold(word + place, part);
            }
        });
    }

    #[inline]
    fn fold_word(self, index: usize, xor: u64, mut fold: impl FnMut(usize, u64)) {
        let (column, half) = (index / 2, index % 2);
        let word = column / self.columns() * (PARITY / 8);
        let diagonal = ring::times_x(u128::from(xor) << (64 * half), column % self.columns());
        fold(word + half, xor);
        fold(word + 2, diagonal as u64);
        fold(word + 3, (diagonal >> 64) as u64);
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        let own = self.own(data);
        own[..self.blocks()] == *self.stored(parity) && crc64::full(data) == sum
    }
}

impl Evenodd {
    fn stored(self, parity: &[u8]) -> &[[u8; PARITY]] {
        assert_eq!(parity.len(), self.parity_len(), "parity of another code");
        parity.as_chunks().0
    }

    fn stored_mut(self, parity: &mut [u8]) -> &mut [[u8; PARITY]] {
        assert_eq!(parity.len(), self.parity_len(), "parity of another code");
        parity.as_chunks_mut().0
    }
}

/// What the stored parity says beside that of the bytes, block by block.
pub(crate) struct Damage {
    code: Evenodd,
    syndromes: [Syndrome; BLOCKS_MAX],
}

impl Damage {
    pub(crate) fn of(code: Evenodd, data: &[u8; FRAME], parity: &[u8]) -> Self {
        let mut syndromes = [Syndrome { p: 0, q: 0 }; BLOCKS_MAX];
        for ((own, stored), syndrome) in code.own(data).iter().zip(code.stored(parity)).zip(&mut syndromes) {
            *syndrome = Syndrome::of(own, stored);
        }
        Self { code, syndromes }
    }

    /// The blocks that are not clean.
    fn blocks(&self) -> impl Iterator<Item = (usize, Syndrome)> {
        let all = self.syndromes.iter().copied().enumerate();
        all.filter(|(_, syndrome)| !syndrome.is_clean())
    }

    /// Hands `each` every damage that parity allows and by which the frame's CRC-64 changes by `delta`.
    pub(crate) fn patterns(&self, delta: u64, mut each: impl FnMut(&[u8; FRAME])) {
        let mut blocks = self.blocks();
        match (blocks.next(), blocks.next(), blocks.next()) {
            (Some(one), None, _) => {
                let hypotheses = Hypotheses::of(self.code, one);
                for hypothesis in hypotheses.iter().filter(|h| h.delta == delta) {
                    each(&pattern(&[hypothesis]));
                }
            }
            (Some(one), Some(two), None) => {
                let (one, two) = (Hypotheses::of(self.code, one), Hypotheses::of(self.code, two));
                for first in one.iter() {
                    for second in two.iter().filter(|second| second.delta ^ first.delta == delta) {
                        each(&pattern(&[first, second]));
                    }
                }
            }
            _ => self.blind(delta, each),
        }
    }

    /// Many blocks: each as its blind decoder says, all confirmed together.
    fn blind(&self, delta: u64, mut each: impl FnMut(&[u8; FRAME])) {
        for decoder in [Decoder::Column, Decoder::Burst] {
            let mut xor = [0; FRAME];
            let mut sum = 0;
            for (at, syndrome) in self.blocks() {
                if let Blind::Columns(columns) = syndrome.decode(self.code.columns(), decoder) {
                    let hypothesis = Hypothesis::new(self.code, at, columns);
                    hypothesis.draw(&mut xor);
                    sum ^= hypothesis.delta;
                }
            }
            if sum == delta {
                each(&xor);
            }
        }
    }
}

/// A damage of one block that its parity allows.
#[derive(Clone, Copy)]
struct Hypothesis {
    /// Columns of the frame and what is wrong in them.
    columns: [(usize, u128); 2],
    /// The delta of the frame's CRC-64.
    delta: u64,
}

impl Hypothesis {
    const NONE: Self = Self {
        columns: [(0, 0); 2],
        delta: 0,
    };

    /// `columns` are numbered within block `at`.
    fn new(code: Evenodd, at: usize, columns: [(usize, u128); 2]) -> Self {
        let first = at * code.columns();
        let columns = columns.map(|(column, xor)| (first + column, xor));
        let delta = columns.iter().fold(0, |delta, (column, xor)| {
            delta ^ crc64::delta_word(2 * column, *xor as u64) ^ crc64::delta_word(2 * column + 1, (*xor >> 64) as u64)
        });
        Self { columns, delta }
    }

    fn draw(&self, pattern: &mut [u8; FRAME]) {
        let (all, _) = pattern.as_chunks_mut::<COLUMN>();
        for (column, xor) in self.columns {
            let now = u128::from_le_bytes(all[column]) ^ xor;
            all[column] = now.to_le_bytes();
        }
    }
}

fn pattern(hypotheses: &[&Hypothesis]) -> [u8; FRAME] {
    let mut pattern = [0; FRAME];
    hypotheses.iter().for_each(|hypothesis| hypothesis.draw(&mut pattern));
    pattern
}

/// Every damage of one block that its parity allows: parity alone, one column with or without P or Q, two columns.
struct Hypotheses {
    all: [Hypothesis; HYPOTHESES_MAX],
    count: usize,
}

impl Hypotheses {
    fn of(code: Evenodd, (at, syndrome): (usize, Syndrome)) -> Self {
        let mut hypotheses = Self {
            all: [Hypothesis::NONE; HYPOTHESES_MAX],
            count: 0,
        };
        let mut add = |columns| hypotheses.add(Hypothesis::new(code, at, columns));
        add([(0, 0); 2]);
        let Syndrome { p, q } = syndrome;
        for second in 0..code.columns() {
            let (without_q, without_p) = (p, syndrome.over_column(second));
            if without_q != 0 {
                add([(second, without_q), (second, 0)]);
            }
            if without_p != 0 && without_p != without_q {
                add([(second, without_p), (second, 0)]);
            }
            for first in 0..second {
                // P = a + b and Q = x^first·a + x^second·b.
                let rest = ring::over_x(q ^ ring::times_x(p, second), first);
                let a = ring::over_one_plus_x(rest, second - first);
                if a != 0 && a != p {
                    add([(first, a), (second, p ^ a)]);
                }
            }
        }
        hypotheses
    }

    fn add(&mut self, hypothesis: Hypothesis) {
        self.all[self.count] = hypothesis;
        self.count += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &Hypothesis> {
        self.all[..self.count].iter()
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
