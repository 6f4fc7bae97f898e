//! Tests of the keyed sum against plain multiplication bit by bit, at every instruction set. Miri, which needs half a minute
//! for each, runs those that meet all code.

use super::*;
use crate::testing::{Rng, at_every_level, rounds};

/// P of CRC-64/NVME without its x^64.
const MODULUS: u64 = 0xAD93_D235_94C9_3659;

/// a * b * x mod P, with the coefficient of x^i in bit 63 - i: one bit a step, as one does it by hand.
fn by_hand(a: u64, b: u64) -> u64 {
    let (a, b) = (a.reverse_bits(), b.reverse_bits());
    let times_x = |value: u64| value << 1 ^ if value >> 63 == 1 { MODULUS } else { 0 };
    let mut product = 0;
    for bit in (0..64).rev() {
        product = times_x(product) ^ if b >> bit & 1 == 1 { a } else { 0 };
    }
    times_x(product).reverse_bits()
}

fn oracle(random: &[u8; FRAME], data: &[u8; FRAME]) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let words = data.chunks(8).zip(random.chunks(8));
    words.fold(0, |sum, (data, key)| sum ^ by_hand(word(data), word(key)))
}

#[test]
fn equals_plain_multiplication_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(1);
        for _ in 0..rounds(50, 1) {
            let (random, data) = (rng.frame(), rng.frame());
            assert_eq!(Keys::of(&random).sum(&data), oracle(&random, &data));
        }
        assert_eq!(Keys::of(&rng.frame()).sum(&[0; FRAME]), 0);
    });
}

#[test]
fn follows_any_change_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(2);
        let random = rng.frame();
        let keys = Keys::of(&random);
        let mut data = rng.frame();
        let mut sum = keys.sum(&data);
        for round in 0..rounds(4_000, 1) {
            let offset = rng.below(FRAME);
            let longest = if round % 3 == 0 { FRAME } else { 80 };
            let len = rng.below(longest + 1).min(FRAME - offset);
            let new = rng.bytes(len);
            sum ^= keys.delta(offset, &data[offset..offset + len], &new);
            data[offset..offset + len].copy_from_slice(&new);
            assert_eq!(sum, keys.sum(&data), "{len} bytes at {offset}");
        }
        assert_eq!(sum, oracle(&random, &data));
    });
}

#[test]
#[cfg(not(miri))]
fn words_and_pieces_at_the_ends_of_a_frame() {
    let mut rng = Rng::new(3);
    let keys = Keys::of(&rng.frame());
    let all = [
        (4087, 9),
        (0, 8),
        (8, 8),
        (4088, 8),
        (0, 1),
        (4095, 1),
        (1, 4095),
        (0, 4096),
        (4096, 0),
    ];
    for (offset, len) in all {
        let (old, new) = (rng.frame(), rng.bytes(len));
        let mut changed = old;
        changed[offset..offset + len].copy_from_slice(&new);
        let delta = keys.delta(offset, &old[offset..offset + len], &new);
        assert_eq!(keys.sum(&old) ^ delta, keys.sum(&changed), "{len} bytes at {offset}");
    }
}

/// P itself, written into a frame: the CRC-64 stays as it is, wherever it stands.
#[test]
#[cfg(not(miri))]
fn what_leaves_the_crc_as_it_is_changes_the_keyed_sum() {
    let mut rng = Rng::new(4);
    for _ in 0..2_000 {
        let (keys, old) = (Keys::of(&rng.frame()), rng.frame());
        let mut new = old;
        let at = 8 * rng.below(FRAME / 8 - 1);
        let change = (1u128 << 63 | u128::from(MODULUS.reverse_bits()) << 64).to_le_bytes();
        new[at..at + 16]
            .iter_mut()
            .zip(change)
            .for_each(|(byte, xor)| *byte ^= xor);
        assert_eq!(crc64::full(&old), crc64::full(&new));
        assert_ne!(keys.sum(&old), keys.sum(&new));
    }
}

/// No change passes with more than one of the keys of a word: multiplication by what is not 0 has an inverse.
#[test]
#[cfg(not(miri))]
fn another_key_of_a_changed_word_is_another_sum() {
    let mut rng = Rng::new(5);
    let (mut random, data) = (rng.frame(), rng.frame());
    let sum = Keys::of(&random).sum(&data);
    for bit in 0..FRAME * 8 {
        random[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(Keys::of(&random).sum(&data), sum, "bit {bit}");
        random[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn keys_know_whether_they_are_whole() {
    let mut keys = Keys::of(&Rng::new(6).frame());
    assert!(keys.are_whole());
    keys.spoil();
    assert!(!keys.are_whole());
}
