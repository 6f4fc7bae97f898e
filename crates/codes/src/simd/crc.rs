//! The kernels of the checksums: folding with carry-less multiplication (128 and 512 bits).

use core::arch::x86_64::*;

use super::{load_512, load_words};
use crate::crc64::word_of;
use crate::tables::{CASTAGNOLI, Fold, Folds, NVME};

static NVME_FOLDS: Folds = Folds::of(NVME);
static CASTAGNOLI_FOLDS: Folds = Folds::of(CASTAGNOLI);

/// The Barrett quotient floor(x^128 / P) of CRC-64/NVME without its leading term, reflected.
const QUOTIENT: u64 = quotient();
/// P of CRC-64/NVME, 65 bits reflected, cut to the low 64.
const MODULUS: u64 = (0x9A6C_9329_AC4B_C9B5 << 1) | 1;

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn multiply(a: u64, b: u64) -> u64 {
    reduce(_mm_clmulepi64_si128(low(a), low(b), 0x00))
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn multiply_two(a: u64, b: u64, c: u64, d: u64) -> u64 {
    let (first, second) = (
        _mm_clmulepi64_si128(low(a), low(b), 0x00),
        _mm_clmulepi64_si128(low(c), low(d), 0x00),
    );
    reduce(_mm_xor_si128(first, second))
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn low(word: u64) -> __m128i {
    _mm_set_epi64x(0, word as i64)
}

/// Barrett reduction of a 127-bit reflected product to the CRC-64 register.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn reduce(product: __m128i) -> u64 {
    let quotient = _mm_clmulepi64_si128(product, low(QUOTIENT), 0x00);
    let multiple = _mm_clmulepi64_si128(quotient, low(MODULUS), 0x00);
    let high = _mm_extract_epi64(product, 1) as u64;
    high ^ (_mm_extract_epi64(multiple, 1) as u64) ^ (_mm_cvtsi128_si64(quotient) as u64)
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_128(value: __m128i, by: Fold) -> __m128i {
    let k = _mm_set_epi64x(by.high as i64, by.low as i64);
    _mm_xor_si128(
        _mm_clmulepi64_si128(value, k, 0x00),
        _mm_clmulepi64_si128(value, k, 0x11),
    )
}

/// The 16 bytes of a lane of a block.
#[inline]
#[target_feature(enable = "sse2")]
fn load_lane(block: &[u8; 64], lane: usize) -> __m128i {
    super::load_128(&block.as_chunks().0[lane])
}

/// Folds `blocks` (at least one) to 128 bits congruent to them; `state` enters the first word.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn fold_blocks_128(folds: &Folds, state: u64, blocks: &[[u8; 64]]) -> __m128i {
    let (first, rest) = blocks.split_first().expect("at least one block");
    let mut lanes = [
        _mm_xor_si128(load_lane(first, 0), low(state)),
        load_lane(first, 1),
        load_lane(first, 2),
        load_lane(first, 3),
    ];
    for block in rest {
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = _mm_xor_si128(fold_128(*value, folds.by_512), load_lane(block, lane));
        }
    }
    let near = _mm_xor_si128(fold_128(lanes[2], folds.by_128), lanes[3]);
    let far = _mm_xor_si128(fold_128(lanes[0], folds.by_384), fold_128(lanes[1], folds.by_256));
    _mm_xor_si128(near, far)
}

/// The CRC-64 register after the 128 bits of `value` (register before it: zero).
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn finish_64(value: __m128i) -> u64 {
    let k = low(NVME_FOLDS.by_128.high); // x^127: moves the earlier word behind the later one
    let earlier = _mm_clmulepi64_si128(value, k, 0x00);
    reduce(_mm_xor_si128(earlier, _mm_srli_si128(value, 8)))
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn crc64_128(state: u64, blocks: &[[u8; 64]]) -> u64 {
    finish_64(fold_blocks_128(&NVME_FOLDS, state, blocks))
}

/// As [`crc64_128`], of few bytes: one lane, no table that others would have to make room for in the cache.
#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn crc64_short(state: u64, data: &[u8]) -> u64 {
    let (pieces, tail) = data.as_chunks::<16>();
    let behind = 8 * tail.len();
    let Some((first, rest)) = pieces.split_first() else {
        return match behind {
            0 => state,
            // Zeros before the bytes leave a register of zeros as it is.
            _ => finish_64(wide((few(tail) ^ u128::from(state)) << (128 - behind))) ^ beyond(state, behind),
        };
    };
    let mut value = _mm_xor_si128(piece(first), low(state));
    for bytes in rest {
        value = _mm_xor_si128(fold_128(value, NVME_FOLDS.by_128), piece(bytes));
    }
    if let (1.., Some(last)) = (behind, data.last_chunk()) {
        // As many bytes as are behind the pieces go before the last 16.
        let (value, new) = (narrow(value), u128::from_le_bytes(*last) >> (128 - behind));
        let (before, all) = (value << (128 - behind), value >> behind | new << (128 - behind));
        return finish_64(_mm_xor_si128(fold_128(wide(before), NVME_FOLDS.by_128), wide(all)));
    }
    finish_64(value)
}

/// What of a register has not met a byte yet behind `bits` of them.
#[inline]
fn beyond(state: u64, bits: usize) -> u64 {
    state.checked_shr(bits as u32).unwrap_or(0)
}

/// Fewer than 16 bytes as a little-endian number.
#[inline]
fn few(bytes: &[u8]) -> u128 {
    let (first, rest) = bytes.split_at(bytes.len().min(8));
    u128::from(word_of(first)) | u128::from(word_of(rest)) << 64
}

#[inline]
#[target_feature(enable = "sse2")]
fn wide(words: u128) -> __m128i {
    _mm_set_epi64x((words >> 64) as i64, words as i64)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn narrow(value: __m128i) -> u128 {
    let high = _mm_extract_epi64(value, 1) as u64;
    u128::from(high) << 64 | u128::from(_mm_cvtsi128_si64(value) as u64)
}

#[inline]
#[target_feature(enable = "sse2")]
fn piece(bytes: &[u8; 16]) -> __m128i {
    wide(u128::from_le_bytes(*bytes))
}

#[target_feature(enable = "pclmulqdq,sse4.1")]
pub(super) fn delta_128(places: &[u64], first: usize, old: &[u8], new: &[u8]) -> u64 {
    reduce(delta_words(_mm_setzero_si128(), places, first, old, new))
}

/// Adds the unreduced product of each word's change and place to `sum`.
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.1")]
fn delta_words(mut sum: __m128i, places: &[u64], first: usize, old: &[u8], new: &[u8]) -> __m128i {
    let (old, old_tail) = old.as_chunks::<8>();
    let (new, new_tail) = new.as_chunks::<8>();
    let places = &places[first..];
    for ((old, new), &place) in old.iter().zip(new).zip(places) {
        let change = low(u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new));
        sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(change, low(place), 0x00));
    }
    match places.get(new.len()) {
        Some(&place) if !new_tail.is_empty() => {
            let change = low(word_of(old_tail) ^ word_of(new_tail));
            _mm_xor_si128(sum, _mm_clmulepi64_si128(change, low(place), 0x00))
        }
        _ => sum,
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn spread(by: Fold) -> __m512i {
    let (high, low) = (by.high as i64, by.low as i64);
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn fold_512(value: __m512i, k: __m512i) -> __m512i {
    _mm512_xor_si512(
        _mm512_clmulepi64_epi128(value, k, 0x00),
        _mm512_clmulepi64_epi128(value, k, 0x11),
    )
}

/// One step of an accumulator: fold by `k`, add `block`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn advance_512(value: __m512i, k: __m512i, block: &[u8; 64]) -> __m512i {
    const XOR3: i32 = 0x96;
    _mm512_ternarylogic_epi64(
        _mm512_clmulepi64_epi128(value, k, 0x00),
        _mm512_clmulepi64_epi128(value, k, 0x11),
        load_512(block),
        XOR3,
    )
}

/// XOR of the four 128-bit lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
pub(super) fn sum_lanes(value: __m512i) -> __m128i {
    let half = _mm256_xor_si256(_mm512_castsi512_si256(value), _mm512_extracti64x4_epi64(value, 1));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1))
}

/// As [`fold_blocks_128`], four blocks at a time (at least four).
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
fn fold_blocks_512(folds: &Folds, state: u64, blocks: &[[u8; 64]]) -> __m128i {
    let (quads, singles) = blocks.as_chunks::<4>();
    let (first, rest) = quads.split_first().expect("at least four blocks");
    let start = _mm512_zextsi128_si512(low(state));
    let mut a = _mm512_xor_si512(load_512(&first[0]), start);
    let mut b = load_512(&first[1]);
    let mut c = load_512(&first[2]);
    let mut d = load_512(&first[3]);
    let k = spread(folds.by_2048);
    for quad in rest {
        a = advance_512(a, k, &quad[0]);
        b = advance_512(b, k, &quad[1]);
        c = advance_512(c, k, &quad[2]);
        d = advance_512(d, k, &quad[3]);
    }
    let k = spread(folds.by_512);
    let ab = _mm512_xor_si512(fold_512(a, spread(folds.by_1536)), fold_512(b, spread(folds.by_1024)));
    let mut all = _mm512_xor_si512(ab, _mm512_xor_si512(fold_512(c, k), d));
    for block in singles {
        all = advance_512(all, k, block);
    }
    fold_lanes(folds, all)
}

/// The four lanes of one accumulator folded behind the last.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq")]
fn fold_lanes(folds: &Folds, value: __m512i) -> __m128i {
    let (f2, f1, f0) = (folds.by_128, folds.by_256, folds.by_384);
    let k = _mm512_set_epi64(
        0,
        0,
        f2.high as i64,
        f2.low as i64,
        f1.high as i64,
        f1.low as i64,
        f0.high as i64,
        f0.low as i64,
    );
    let moved = sum_lanes(fold_512(value, k));
    _mm_xor_si128(moved, _mm512_extracti32x4_epi32(value, 3))
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn crc64_512(state: u64, blocks: &[[u8; 64]]) -> u64 {
    finish_64(fold_blocks_512(&NVME_FOLDS, state, blocks))
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn delta_512(places: &[u64], first: usize, old: &[u8], new: &[u8]) -> u64 {
    let (old, old_tail) = old.as_chunks::<64>();
    let (new, new_tail) = new.as_chunks::<64>();
    let mut sum = _mm512_setzero_si512();
    let mut word = first;
    for (old, new) in old.iter().zip(new) {
        let change = _mm512_xor_si512(load_512(old), load_512(new));
        let place = load_places(places, word);
        sum = _mm512_xor_si512(sum, _mm512_clmulepi64_epi128(change, place, 0x00));
        sum = _mm512_xor_si512(sum, _mm512_clmulepi64_epi128(change, place, 0x11));
        word += 8;
    }
    reduce(delta_words(sum_lanes(sum), places, word, old_tail, new_tail))
}

/// As [`delta_512`] of zeros that become `blocks`: each word times its place, and one reduction.
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1")]
pub(super) fn added_512(places: &[u64], first: usize, blocks: &[[u8; 64]]) -> u64 {
    let (mut low, mut high) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let (places, _) = places[first..].as_chunks();
    for (block, places) in blocks.iter().zip(places) {
        let (words, places) = (load_512(block), load_words(places));
        low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(words, places, 0x00));
        high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(words, places, 0x11));
    }
    reduce(sum_lanes(_mm512_xor_si512(low, high)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_places(places: &[u64], first: usize) -> __m512i {
    let eight = places[first..].first_chunk();
    load_words(eight.expect("places are padded by eight words"))
}

/// CRC-32C of bytes with the SSE4.2 instruction.
#[inline]
#[target_feature(enable = "sse4.2")]
fn crc32c_bytes(state: u32, data: &[u8]) -> u32 {
    let (words, tail) = data.as_chunks::<8>();
    let mut wide = u64::from(state);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut state = wide as u32;
    for &byte in tail {
        state = _mm_crc32_u8(state, byte);
    }
    state
}

/// The CRC-32C register after the 128 bits of `value` (register before it: zero).
#[inline]
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn finish_32(value: __m128i) -> u32 {
    let earlier = _mm_crc32_u64(0, _mm_cvtsi128_si64(value) as u64);
    _mm_crc32_u64(earlier, _mm_extract_epi64(value, 1) as u64) as u32
}

#[target_feature(enable = "pclmulqdq,sse4.1,sse4.2")]
pub(super) fn crc32c_128(state: u32, data: &[u8]) -> u32 {
    let (blocks, tail) = data.as_chunks::<64>();
    if blocks.len() < 4 {
        return crc32c_bytes(state, data);
    }
    let folded = fold_blocks_128(&CASTAGNOLI_FOLDS, u64::from(state), blocks);
    crc32c_bytes(finish_32(folded), tail)
}

#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.1,sse4.2")]
pub(super) fn crc32c_512(state: u32, data: &[u8]) -> u32 {
    let (blocks, tail) = data.as_chunks::<64>();
    if blocks.len() < 4 {
        return crc32c_bytes(state, data);
    }
    let folded = fold_blocks_512(&CASTAGNOLI_FOLDS, u64::from(state), blocks);
    crc32c_bytes(finish_32(folded), tail)
}

/// Long division of x^128 by P, reflected.
const fn quotient() -> u64 {
    const P: u128 = (1 << 64) | 0xAD93_D235_94C9_3659;
    let mut remainder: u128 = 1; // the leading x^128
    let mut quotient: u128 = 0;
    let mut step = 0;
    while step <= 128 {
        if step > 0 {
            remainder <<= 1;
        }
        quotient <<= 1;
        if (remainder >> 64) & 1 == 1 {
            remainder ^= P;
            quotient |= 1;
        }
        step += 1;
    }
    // 65 bits, reflected over 65 places, cut to 64: the same as dropping the constant term.
    ((quotient >> 1) as u64).reverse_bits()
}
