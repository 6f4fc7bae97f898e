//! The door to the x86-64 kernels in `simd/`: what the machine has, and the ways in.
//!
//! The only file of this package with `unsafe`. Rules: a token ([`Clmul`], [`Avx512`]) is made only by
//! [`level`] after the processor and the operating system were asked; a kernel is reached only through
//! a token; memory is read and written only through the loads and stores here, by array references of the full vector width.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::aes::{Block, Schedule};
use crate::rows::{ROWS, Row};

mod aes;
mod crc;
mod keyed;
mod parity;

const UNKNOWN: u8 = 0;
const PORTABLE: u8 = 1;
const CLMUL: u8 = 2;
const AVX512: u8 = 3;
static DETECTED: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The widest instruction set this machine has.
#[derive(Clone, Copy)]
pub(crate) enum Level {
    Portable,
    Clmul(Clmul),
    Avx512(Avx512),
}

impl Level {
    /// The 128-bit kernels, if this machine has them.
    #[inline]
    pub(crate) fn clmul(self) -> Option<Clmul> {
        match self {
            Level::Portable => None,
            Level::Clmul(isa) => Some(isa),
            Level::Avx512(isa) => Some(isa.narrow()),
        }
    }
}

/// Proof that PCLMULQDQ, AES, SSSE3, SSE4.1 and SSE4.2 are present.
#[derive(Clone, Copy)]
pub(crate) struct Clmul(());

/// Proof that AVX-512 F/BW/VL, VPCLMULQDQ and GFNI are present and enabled, beside what [`Clmul`] proves.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// The level of this machine; asked once, then one relaxed load.
#[inline]
pub(crate) fn level() -> Level {
    #[cfg(test)]
    if let Some(forced) = tests::forced() {
        return forced;
    }
    match DETECTED.load(Ordering::Relaxed) {
        AVX512 => Level::Avx512(Avx512(())),
        CLMUL => Level::Clmul(Clmul(())),
        PORTABLE => Level::Portable,
        _ => detect(),
    }
}

#[cold]
fn detect() -> Level {
    let found = if cfg!(miri) { PORTABLE } else { probe() };
    DETECTED.store(found, Ordering::Relaxed);
    level()
}

/// Asks CPUID and XGETBV (Intel SDM volume 1, sections 14.3 and 15.2).
fn probe() -> u8 {
    let basic = __cpuid(1).ecx;
    const NARROW: u32 = 1 << 1 | 1 << 9 | 1 << 19 | 1 << 20 | 1 << 25; // PCLMULQDQ, SSSE3, SSE4.1, SSE4.2, AES
    if basic & NARROW != NARROW {
        return PORTABLE;
    }
    const OSXSAVE: u32 = 1 << 27;
    if basic & OSXSAVE == 0 || __cpuid(0).eax < 7 {
        return CLMUL;
    }
    // SAFETY: OSXSAVE is set, so XGETBV exists and register 0 may be read.
    let enabled = unsafe { _xgetbv(0) };
    let extended = __cpuid_count(7, 0);
    const STATE: u64 = 0b1110_0110; // xmm, ymm, opmask, both halves of zmm
    const WIDE_EBX: u32 = 1 << 5 | 1 << 16 | 1 << 30 | 1 << 31; // AVX2, AVX-512 F, BW and VL
    const WIDE_ECX: u32 = 1 << 8 | 1 << 10; // GFNI, VPCLMULQDQ
    let wide = enabled & STATE == STATE && extended.ebx & WIDE_EBX == WIDE_EBX && extended.ecx & WIDE_ECX == WIDE_ECX;
    if wide { AVX512 } else { CLMUL }
}

impl Clmul {
    /// `a * b * x mod P` of CRC-64/NVME.
    #[inline]
    pub(crate) fn multiply(self, a: u64, b: u64) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::multiply(a, b) }
    }

    /// `(a * b + c * d) * x mod P` of CRC-64/NVME.
    #[inline]
    pub(crate) fn multiply_two(self, (a, b): (u64, u64), (c, d): (u64, u64)) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::multiply_two(a, b, c, d) }
    }

    /// CRC-64 register `state` advanced over `blocks` (at least one).
    pub(crate) fn crc64(self, state: u64, blocks: &[[u8; 64]]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::crc64_128(state, blocks) }
    }

    /// CRC-64 register `state` advanced over `data`: for less than a block.
    pub(crate) fn crc64_short(self, state: u64, data: &[u8]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::crc64_short(state, data) }
    }

    /// CRC-64 delta of bytes from word `first` on, given the places of words.
    pub(crate) fn delta64(self, places: &[u64], first: usize, old: &[u8], new: &[u8]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::delta_128(places, first, old, new) }
    }

    /// The sum of each word of a frame times its key, times x mod P of CRC-64/NVME.
    pub(crate) fn keyed(self, keys: &[u64; 512], data: &[u8; 4096]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { keyed::sum_128(keys, data) }
    }

    /// CRC-32C register `state` advanced over `data`.
    pub(crate) fn crc32c(self, state: u32, data: &[u8]) -> u32 {
        // SAFETY: the token proves the features.
        unsafe { crc::crc32c_128(state, data) }
    }

    /// F(block).
    #[inline]
    pub(crate) fn aes_rounds(self, schedule: &Schedule, block: Block) -> Block {
        // SAFETY: the token proves the features.
        unsafe { aes::rounds(schedule, block) }
    }

    /// F(second) - F(first), half by half.
    #[inline]
    pub(crate) fn aes_difference(self, schedule: &Schedule, first: Block, second: Block) -> Block {
        // SAFETY: the token proves the features.
        unsafe { aes::difference(schedule, first, second) }
    }

    /// As [`Avx512::evenodd`].
    pub(crate) fn evenodd(self, columns: &[[u8; 16]], parities: &mut [[u8; 32]]) {
        // SAFETY: the token proves the features.
        unsafe { parity::evenodd_128(columns, parities) }
    }
}

impl Avx512 {
    /// What this token proves of the narrower kernels.
    #[inline]
    pub(crate) fn narrow(self) -> Clmul {
        Clmul(())
    }

    /// CRC-64 register `state` advanced over `blocks` (at least four).
    pub(crate) fn crc64(self, state: u64, blocks: &[[u8; 64]]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::crc64_512(state, blocks) }
    }

    /// CRC-64 delta of bytes from word `first` on; `places` reaches 8 words past the last one used.
    pub(crate) fn delta64(self, places: &[u64], first: usize, old: &[u8], new: &[u8]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::delta_512(places, first, old, new) }
    }

    /// CRC-64 delta of zeros that become `blocks`, from word `first` on.
    #[inline]
    pub(crate) fn added64(self, places: &[u64], first: usize, blocks: &[[u8; 64]]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { crc::added_512(places, first, blocks) }
    }

    /// As [`Clmul::keyed`].
    pub(crate) fn keyed(self, keys: &[u64; 512], data: &[u8; 4096]) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { keyed::sum_512(keys, data) }
    }

    /// CRC-32C register `state` advanced over `data`.
    pub(crate) fn crc32c(self, state: u32, data: &[u8]) -> u32 {
        // SAFETY: the token proves the features.
        unsafe { crc::crc32c_512(state, data) }
    }

    /// The XOR of all rows.
    pub(crate) fn row_parity(self, rows: &[Row; ROWS]) -> Row {
        // SAFETY: the token proves the features.
        unsafe { parity::row_parity(rows) }
    }

    /// P and Q of all rows (S-15.7).
    pub(crate) fn row_parities(self, rows: &[Row; ROWS]) -> (Row, Row) {
        // SAFETY: the token proves the features.
        unsafe { parity::row_parities(rows) }
    }

    /// Each byte of `word` times `c`.
    #[inline]
    pub(crate) fn times(self, c: u8, word: u64) -> u64 {
        // SAFETY: the token proves the features.
        unsafe { parity::times(c, word) }
    }

    /// P and Q of blocks of 4 or 16 columns (S-15.8); as many blocks as `parities` has room for.
    pub(crate) fn evenodd(self, rows: &[Row; ROWS], parities: &mut [[u8; 32]]) {
        // SAFETY: the token proves the features.
        unsafe { parity::evenodd_512(rows, parities) }
    }
}

/// 16 bytes as a vector.
#[inline]
#[target_feature(enable = "sse2")]
fn load_128(bytes: &[u8; 16]) -> __m128i {
    let at: *const [u8; 16] = bytes;
    // SAFETY: `at` comes from a reference to 16 readable bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(at.cast()) }
}

/// A vector as 16 bytes.
#[inline]
#[target_feature(enable = "sse2")]
fn store_128(bytes: &mut [u8; 16], value: __m128i) {
    let to: *mut [u8; 16] = bytes;
    // SAFETY: `to` comes from a reference to 16 writable bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(to.cast(), value) };
}

/// 64 bytes as a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_512(block: &[u8; 64]) -> __m512i {
    let at: *const [u8; 64] = block;
    // SAFETY: `at` comes from a reference to 64 readable bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// A vector as 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_512(value: __m512i) -> Row {
    let mut line = [0u8; 64];
    let to: *mut [u8; 64] = &mut line;
    // SAFETY: `to` comes from a reference to 64 writable bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(to.cast(), value) };
    line
}

/// Eight words as a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_words(words: &[u64; 8]) -> __m512i {
    let at: *const [u64; 8] = words;
    // SAFETY: `at` comes from a reference to 8 readable words; the load needs no alignment.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

#[cfg(test)]
pub(crate) mod tests;
