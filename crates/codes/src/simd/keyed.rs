//! The kernels of the keyed sum (S-15.18): one carry-less product a word, added without reduction, reduced once.

use core::arch::x86_64::*;

use super::crc::{reduce, sum_lanes};
use super::{load_128, load_512, load_words};
use crate::FRAME;

/// Words of a frame.
const WORDS: usize = FRAME / 8;

#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn sum_128(keys: &[u64; WORDS], data: &[u8; FRAME]) -> u64 {
    let mut sums = [_mm_setzero_si128(); 2];
    let (pieces, _) = data.as_chunks::<16>();
    let (keys, _) = keys.as_chunks::<2>();
    for (piece, key) in pieces.iter().zip(keys) {
        let (piece, key) = (load_128(piece), _mm_set_epi64x(key[1] as i64, key[0] as i64));
        sums[0] = _mm_xor_si128(sums[0], _mm_clmulepi64_si128(piece, key, 0x00));
        sums[1] = _mm_xor_si128(sums[1], _mm_clmulepi64_si128(piece, key, 0x11));
    }
    reduce(_mm_xor_si128(sums[0], sums[1]))
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn sum_512(keys: &[u64; WORDS], data: &[u8; FRAME]) -> u64 {
    let mut sums = [_mm512_setzero_si512(); 2];
    let (blocks, _) = data.as_chunks::<64>();
    let (keys, _) = keys.as_chunks::<8>();
    for (block, key) in blocks.iter().zip(keys) {
        let (block, key) = (load_512(block), load_words(key));
        sums[0] = _mm512_xor_si512(sums[0], _mm512_clmulepi64_epi128(block, key, 0x00));
        sums[1] = _mm512_xor_si512(sums[1], _mm512_clmulepi64_epi128(block, key, 0x11));
    }
    reduce(sum_lanes(_mm512_xor_si512(sums[0], sums[1])))
}
