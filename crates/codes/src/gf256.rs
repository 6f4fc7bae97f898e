//! GF(2^8) modulo x^8 + x^4 + x^3 + x + 1 (the field of AES and of GFNI), bytes alone and eight at a time.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;

/// `POWERS[i]` is 3^i, the factor of line i in Q (S-15.7). 3 generates the field: all are different.
pub(crate) static POWERS: [u8; 64] = powers();

/// `INVERSES[a]` is 1/a; that of 0 is 0.
pub(crate) static INVERSES: [u8; 256] = inverses();

/// `a * b`.
pub(crate) const fn product(a: u8, b: u8) -> u8 {
    let (mut a, mut b) = (a, b);
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = (a << 1) ^ if a & 0x80 != 0 { 0x1b } else { 0 };
        b >>= 1;
    }
    product
}

/// Each of the eight bytes of `word` times `c`.
#[inline]
pub(crate) fn times(c: u8, word: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let simd::Level::Avx512(isa) = simd::level() {
        return isa.times(c, word);
    }
    times_portable(c, word)
}

#[inline]
pub(crate) fn times_portable(c: u8, mut word: u64) -> u64 {
    let mut product = 0;
    for bit in 0..8 {
        let wanted = u64::from((c >> bit) & 1);
        product ^= word & wanted.wrapping_neg();
        word = times_2(word);
    }
    product
}

/// Each byte times 3.
#[inline]
pub(crate) fn times_3(word: u64) -> u64 {
    times_2(word) ^ word
}

/// Each byte times x.
#[inline]
fn times_2(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let carries = (word >> 7) & ONES;
    ((word & (0x7f * ONES)) << 1) ^ (carries * 0x1b)
}

const fn powers() -> [u8; 64] {
    let mut powers = [1; 64];
    let mut i = 1;
    while i < 64 {
        powers[i] = product(powers[i - 1], 3);
        i += 1;
    }
    powers
}

const fn inverses() -> [u8; 256] {
    // 3^i and 3^(255 - i) are inverse to each other.
    let mut powers = [1u8; 256];
    let mut i = 1;
    while i < 256 {
        powers[i] = product(powers[i - 1], 3);
        i += 1;
    }
    let mut inverses = [0; 256];
    let mut i = 0;
    while i < 255 {
        inverses[powers[i] as usize] = powers[255 - i];
        i += 1;
    }
    inverses
}

#[cfg(test)]
mod tests;
