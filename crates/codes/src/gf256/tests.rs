//! The field against its definition and the example of FIPS 197.

use super::*;
use crate::testing::{Rng, at_every_level, rounds};

/// By the definition: multiply polynomials, then divide.
fn by_definition(a: u8, b: u8) -> u8 {
    let mut product = (0..8)
        .filter(|bit| (b >> bit) & 1 == 1)
        .fold(0u16, |sum, bit| sum ^ (u16::from(a) << bit));
    for bit in (8..16).rev() {
        if (product >> bit) & 1 == 1 {
            product ^= 0x11b << (bit - 8);
        }
    }
    product as u8
}

#[test]
fn product_is_that_of_the_field() {
    assert_eq!(product(0x57, 0x83), 0xc1); // FIPS 197, section 4.2
    for a in 0..=255 {
        for b in (0..=255).step_by(rounds(1, 37)) {
            assert_eq!(product(a, b), by_definition(a, b));
        }
    }
}

/// An independent implementation of the same field: MixColumns multiplies by 2 and 3.
#[cfg(not(miri))]
#[test]
fn products_by_two_and_three_are_those_of_aes() {
    for byte in 0..=255u8 {
        let mut block = aes::Block::default();
        block[0] = byte;
        aes::hazmat::mix_columns(&mut block);
        assert_eq!(block[..4], [product(2, byte), byte, byte, product(3, byte)]);
    }
}

#[test]
fn every_element_but_zero_has_its_inverse() {
    assert_eq!(INVERSES[0], 0);
    for a in 1..=255u8 {
        assert_eq!(product(a, INVERSES[a as usize]), 1);
    }
}

#[test]
fn the_factors_of_the_lines_differ() {
    for (line, power) in POWERS.iter().enumerate() {
        assert!(!POWERS[..line].contains(power));
    }
    assert_eq!(POWERS[..4], [1, 3, 5, 15]);
}

#[test]
fn eight_at_a_time_equal_one_at_a_time_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(2);
        for c in 0..=255 {
            for _ in 0..rounds(20, 1) {
                let word = rng.next();
                let truth = word.to_le_bytes().map(|byte| product(byte, c));
                assert_eq!(times(c, word), u64::from_le_bytes(truth));
                assert_eq!(times_portable(c, word), u64::from_le_bytes(truth));
                let truth = word.to_le_bytes().map(|byte| product(byte, 3));
                assert_eq!(times_3(word), u64::from_le_bytes(truth));
            }
        }
    });
}
