//! The kernels of the parities: line parities P and Q (AVX-512, GFNI), EVENODD's P and Q (SSSE3, AVX-512).

use core::arch::x86_64::*;

use super::crc::sum_lanes;
use super::{load_128, load_512, store_128, store_512};
use crate::gf256::product;
use crate::rows::{ROWS, Row};

/// 3^4 in GF(2^8).
const FOURTH: u8 = product(product(3, 3), product(3, 3));

/// For each column: from which byte of it a byte of x^column times it comes (0x80: none), but for x^16.
static ROTATIONS: [[u8; 16]; 16] = rotations();
/// For each column: the byte that becomes x^16 and so goes to every place (0x80: none).
static SIXTEENTHS: [[u8; 16]; 16] = sixteenths();

#[inline]
#[target_feature(enable = "avx512f")]
fn sum_of(parts: [__m512i; 4]) -> __m512i {
    let (left, right) = (
        _mm512_xor_si512(parts[0], parts[1]),
        _mm512_xor_si512(parts[2], parts[3]),
    );
    _mm512_xor_si512(left, right)
}

#[target_feature(enable = "avx512f")]
pub(super) fn row_parity(rows: &[Row; ROWS]) -> Row {
    let mut sums = [_mm512_setzero_si512(); 4];
    for quad in rows.as_chunks::<4>().0 {
        for (sum, line) in sums.iter_mut().zip(quad) {
            *sum = _mm512_xor_si512(*sum, load_512(line));
        }
    }
    store_512(sum_of(sums))
}

/// Horner's rule in four chains: chain i takes every fourth line from i on.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) fn row_parities(rows: &[Row; ROWS]) -> (Row, Row) {
    let mut ps = [_mm512_setzero_si512(); 4];
    let mut qs = ps;
    let fourth = _mm512_set1_epi8(FOURTH as i8);
    for quad in rows.as_chunks::<4>().0.iter().rev() {
        for (at, line) in quad.iter().enumerate() {
            let line = load_512(line);
            ps[at] = _mm512_xor_si512(ps[at], line);
            qs[at] = _mm512_xor_si512(_mm512_gf2p8mul_epi8(qs[at], fourth), line);
        }
    }
    let three = _mm512_set1_epi8(3);
    let mut q = qs[3];
    for chain in [qs[2], qs[1], qs[0]] {
        q = _mm512_xor_si512(_mm512_gf2p8mul_epi8(q, three), chain);
    }
    (store_512(sum_of(ps)), store_512(q))
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,gfni")]
pub(super) fn times(c: u8, word: u64) -> u64 {
    let product = _mm_gf2p8mul_epi8(_mm_cvtsi64_si128(word as i64), _mm_set1_epi8(c as i8));
    _mm_cvtsi128_si64(product) as u64
}

#[inline]
#[target_feature(enable = "sse2")]
fn store_columns(to: &mut [u8; 32], p: __m128i, q: __m128i) {
    let (halves, _) = to.as_chunks_mut::<16>();
    for (half, value) in halves.iter_mut().zip([p, q]) {
        store_128(half, value);
    }
}

#[target_feature(enable = "ssse3,sse4.1")]
pub(super) fn evenodd_128(columns: &[[u8; 16]], parities: &mut [[u8; 32]]) {
    let k = columns.len() / parities.len();
    for (block, parity) in columns.chunks(k).zip(parities) {
        let (mut p, mut q) = (_mm_setzero_si128(), _mm_setzero_si128());
        for (column, (rotation, sixteenth)) in block.iter().zip(ROTATIONS.iter().zip(&SIXTEENTHS)) {
            let column = load_128(column);
            p = _mm_xor_si128(p, column);
            q = _mm_xor_si128(q, _mm_shuffle_epi8(column, load_128(rotation)));
            q = _mm_xor_si128(q, _mm_shuffle_epi8(column, load_128(sixteenth)));
        }
        store_columns(parity, p, q);
    }
}

/// Four columns at once.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,sse4.1,vpclmulqdq")]
pub(super) fn evenodd_512(rows: &[Row; ROWS], parities: &mut [[u8; 32]]) {
    let rotations = ROTATIONS.as_flattened().as_chunks::<64>().0;
    let sixteenths = SIXTEENTHS.as_flattened().as_chunks::<64>().0;
    let per_block = rows.len() / parities.len();
    for (block, parity) in rows.chunks(per_block).zip(parities) {
        let (mut p, mut q) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (line, (rotation, sixteenth)) in block.iter().zip(rotations.iter().zip(sixteenths)) {
            let line = load_512(line);
            p = _mm512_xor_si512(p, line);
            let rotated = _mm512_shuffle_epi8(line, load_512(rotation));
            let folded = _mm512_shuffle_epi8(line, load_512(sixteenth));
            q = _mm512_xor_si512(q, _mm512_xor_si512(rotated, folded));
        }
        store_columns(parity, sum_lanes(p), sum_lanes(q));
    }
}

const fn rotations() -> [[u8; 16]; 16] {
    let mut table = [[0x80; 16]; 16];
    let mut column = 0;
    while column < 16 {
        let mut place = 0;
        while place < 16 {
            let from = (place + 17 - column) % 17;
            if from != 16 {
                table[column][place] = from as u8;
            }
            place += 1;
        }
        column += 1;
    }
    table
}

const fn sixteenths() -> [[u8; 16]; 16] {
    let mut table = [[0x80; 16]; 16];
    let mut column = 1;
    while column < 16 {
        table[column] = [16 - column as u8; 16];
        column += 1;
    }
    table
}
