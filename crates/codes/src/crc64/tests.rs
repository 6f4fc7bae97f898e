//! Tests of the CRC-64 and its deltas against an independent crate and against each other.

use super::*;
use std::vec::Vec;

/// A small deterministic stream of bytes.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[cfg(not(miri))]
fn oracle(data: &[u8]) -> u64 {
    let mut digest = crc64fast_nvme::Digest::new();
    digest.write(data);
    digest.sum64()
}

/// Lengths around every kernel's boundaries, few enough for Miri.
fn lengths() -> impl Iterator<Item = usize> {
    let all = if cfg!(miri) { 0..40 } else { 0..1200 };
    all.chain([FRAME - 1, FRAME, FRAME + 1])
}

#[test]
fn check_value_of_the_catalogue() {
    assert_eq!(full(b"123456789"), 0xAE8B_1486_0A79_9888);
    assert_eq!(!update_portable(!0, b"123456789"), 0xAE8B_1486_0A79_9888);
}

#[cfg(not(miri))]
#[test]
fn equals_the_oracle_at_every_length() {
    for len in lengths() {
        let data = bytes(len as u64, len);
        assert_eq!(full(&data), oracle(&data), "length {len}");
    }
}

#[test]
fn dispatched_equals_portable_at_every_length() {
    for len in lengths() {
        let data = bytes(len as u64 + 7, len);
        assert_eq!(full(&data), !update_portable(!0, &data), "length {len}");
    }
}

#[test]
fn zeros_are_known_at_compile_time() {
    const ZEROS: u64 = of_zeros();
    assert_eq!(ZEROS, full(&[0; FRAME]));
}

#[test]
fn seeded_is_the_sum_of_seed_and_data() {
    for len in [0, 1, 63, 64, 100, 4096] {
        let data = bytes(3, len);
        let mut joined = 0x0123_4567_89AB_CDEF_u64.to_le_bytes().to_vec();
        joined.extend_from_slice(&data);
        assert_eq!(seeded(0x0123_4567_89AB_CDEF, &data), full(&joined));
    }
}

#[test]
fn delta_moves_the_sum_of_any_update() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let mut frame = bytes(1, FRAME);
    let mut sum = full(&frame);
    for round in 0..rounds {
        let draw = bytes(round + 99, 8);
        let word = u64::from_le_bytes(draw.try_into().unwrap());
        let offset = (word % FRAME as u64) as usize;
        let longest = if round % 3 == 0 { FRAME } else { 80 };
        let len = ((word >> 20) as usize % (longest + 1)).min(FRAME - offset);
        let new = bytes(word, len);
        let old = frame[offset..offset + len].to_vec();
        sum ^= delta(offset, &old, &new);
        frame[offset..offset + len].copy_from_slice(&new);
        assert_eq!(sum, full(&frame), "offset {offset} length {len}");
    }
}

#[test]
fn delta_word_equals_delta_at_every_index() {
    let step = if cfg!(miri) { 61 } else { 1 };
    for index in (0..WORDS).step_by(step) {
        let xor = 0x8000_0000_0000_0001_u64.rotate_left(index as u32) ^ index as u64;
        let dispatched = delta_word(index, xor);
        assert_eq!(dispatched, delta(index * 8, &[0; 8], &xor.to_le_bytes()));
        assert_eq!(dispatched, multiply(xor, PLACES[index]));
        let portable = delta_portable(index, &[0; 8], &xor.to_le_bytes());
        assert_eq!(dispatched, portable);
    }
}

#[test]
fn two_words_are_one_delta_at_every_index_and_level() {
    crate::testing::at_every_level(|| {
        for index in (0..WORDS - 1).step_by(if cfg!(miri) { 73 } else { 1 }) {
            let (first, second) = (0x8000_0000_0000_0001_u64.rotate_left(index as u32), index as u64 + 3);
            let both = delta_words(index, first, second);
            assert_eq!(both, delta_word(index, first) ^ delta_word(index + 1, second));
            let (old, mut new) = ([0; 16], [0; 16]);
            new[..8].copy_from_slice(&first.to_le_bytes());
            new[8..].copy_from_slice(&second.to_le_bytes());
            assert_eq!(both, delta(8 * index, &old, &new));
            assert_eq!(both, delta_anywhere(8 * index, &old, &new));
        }
    });
}

#[test]
fn portable_delta_equals_dispatched() {
    let (old, new) = (bytes(5, FRAME), bytes(6, FRAME));
    let step = if cfg!(miri) { 97 } else { 5 };
    for first in (0..WORDS).step_by(step) {
        for len in [1, 7, 8, 9, 64, 65, 200, FRAME] {
            let len = len.min(FRAME - first * 8);
            let (old, new) = (&old[..len], &new[..len]);
            assert_eq!(delta_aligned(first, old, new), delta_portable(first, old, new));
        }
    }
}

#[test]
fn an_empty_change_is_no_change() {
    for offset in [0, 1, 8, 4095, 4096] {
        assert_eq!(delta(offset, &[], &[]), 0);
    }
}

#[test]
#[should_panic(expected = "beyond its frame")]
fn a_change_beyond_the_frame_is_refused() {
    delta(4090, &[0; 7], &[0; 7]);
}

#[test]
#[should_panic(expected = "differ in length")]
fn unequal_lengths_are_refused() {
    delta(0, &[0; 7], &[0; 8]);
}

#[test]
fn swapped_words_are_always_seen() {
    let (a, b) = (0x1234_u64, 0x9876_u64);
    for (i, j) in [(0, 1), (0, 511), (100, 300)] {
        let change = delta_word(i, a ^ b) ^ delta_word(j, a ^ b);
        assert_ne!(change, 0);
    }
}

#[test]
fn short_words_are_zero_extended() {
    let bytes = [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
    for len in 0..=8 {
        let mut padded = [0; 8];
        padded[..len].copy_from_slice(&bytes[..len]);
        assert_eq!(word_of(&bytes[..len]), u64::from_le_bytes(padded));
    }
}
