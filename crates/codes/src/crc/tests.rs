//! crc: all single flips, sampled pairs, and damage that it must refuse (S-15.10).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::testing::{Rng, rounds};

#[test]
fn every_flipped_bit_is_corrected() {
    let mut guarded = Guarded::new(Protection::Crc, Rng::new(1).frame());
    let right = guarded.frame;
    for bit in (0..FRAME * 8).step_by(rounds(1, 4001)) {
        guarded.frame[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(guarded.repaired(), Some(right), "bit {bit}");
        guarded.frame[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn two_flipped_bits_are_corrected() {
    let mut rng = Rng::new(2);
    let mut guarded = Guarded::new(Protection::Crc, rng.frame());
    let right = guarded.frame;
    for _ in 0..rounds(300, 1) {
        let (first, second) = (rng.below(FRAME * 8), rng.below(FRAME * 8));
        guarded.frame[first / 8] ^= 1 << (first % 8);
        guarded.frame[second / 8] ^= 1 << (second % 8);
        if first != second {
            assert_eq!(guarded.repaired(), Some(right), "bits {first} and {second}");
        }
        guarded.frame = right;
    }
}

#[test]
fn what_is_not_two_flips_is_refused() {
    let mut rng = Rng::new(3);
    let mut guarded = Guarded::new(Protection::Crc, rng.frame());
    let right = guarded.frame;
    for _ in 0..rounds(100, 1) {
        for _ in 0..3 + rng.below(20) {
            guarded.frame[rng.below(FRAME)] ^= rng.change();
        }
        assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: true });
        guarded.frame = right;
    }
}
