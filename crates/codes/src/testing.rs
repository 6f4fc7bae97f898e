//! What the tests of this package share: reproducible bytes, and every instruction set in turn.

use crate::FRAME;
use std::vec::Vec;

/// A small deterministic source (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    pub(crate) fn frame(&mut self) -> [u8; FRAME] {
        core::array::from_fn(|_| self.next() as u8)
    }

    /// A byte that is not 0.
    pub(crate) fn change(&mut self) -> u8 {
        1 + self.below(255) as u8
    }
}

/// Runs `test` with the kernels of each instruction set that this machine has, the portable ones first.
pub(crate) fn at_every_level(test: impl Fn()) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    crate::simd::tests::at_every_level(test);
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    test();
}

/// `full`, or `few` under Miri.
pub(crate) fn rounds(full: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { full }
}
