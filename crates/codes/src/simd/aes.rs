//! The kernel of the multiset digest: four AES rounds with the processor's instruction.

use core::arch::x86_64::*;

use crate::aes::{Block, Schedule};

#[inline]
#[target_feature(enable = "sse2")]
fn vector(block: Block) -> __m128i {
    _mm_set_epi64x(block.1 as i64, block.0 as i64)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn block(vector: __m128i) -> Block {
    (_mm_cvtsi128_si64(vector) as u64, _mm_extract_epi64(vector, 1) as u64)
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn encrypt(schedule: &Schedule, block: Block) -> __m128i {
    let mut state = _mm_xor_si128(vector(block), vector(schedule[0]));
    for key in &schedule[1..] {
        state = _mm_aesenc_si128(state, vector(*key));
    }
    state
}

#[target_feature(enable = "aes,sse4.1")]
pub(super) fn rounds(schedule: &Schedule, input: Block) -> Block {
    block(encrypt(schedule, input))
}

#[target_feature(enable = "aes,sse4.1")]
pub(super) fn difference(schedule: &Schedule, first: Block, second: Block) -> Block {
    block(_mm_sub_epi64(encrypt(schedule, second), encrypt(schedule, first)))
}
