//! pcrc: every burst, flips, parity's blind spot, and the places of the burst search (S-15.6, S-15.10).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::testing::{Rng, at_every_level, rounds};

#[test]
fn parity_is_the_xor_of_the_lines() {
    let guarded = Guarded::new(Protection::Pcrc, Rng::new(1).frame());
    for (at, byte) in guarded.parity.iter().enumerate() {
        let column = guarded.frame.iter().skip(at).step_by(64);
        assert_eq!(*byte, column.fold(0, |sum, byte| sum ^ byte));
    }
}

/// XORs `damage` over the frame at `start`, asks, takes it back; whether the repair was exactly that.
fn corrected(guarded: &mut Guarded, start: usize, damage: &[u8]) -> bool {
    let right = guarded.frame;
    let flip = |frame: &mut [u8; FRAME]| {
        frame[start..]
            .iter_mut()
            .zip(damage)
            .for_each(|(byte, xor)| *byte ^= xor)
    };
    flip(&mut guarded.frame);
    let repaired = guarded.repaired();
    flip(&mut guarded.frame);
    repaired == Some(right)
}

#[test]
fn every_burst_of_up_to_64_bytes_at_every_offset_is_corrected() {
    let mut rng = Rng::new(2);
    let mut guarded = Guarded::new(Protection::Pcrc, rng.frame());
    for len in (1..=64).step_by(rounds(1, 21)) {
        for start in (0..=FRAME - len).step_by(rounds(1, 1999)) {
            let mut damage = rng.bytes(len);
            damage[0] |= 1;
            damage[len - 1] |= 1;
            assert!(corrected(&mut guarded, start, &damage), "{len} bytes at {start}");
        }
    }
}

#[test]
fn fills_of_constant_areas_are_corrected() {
    let mut rng = Rng::new(3);
    let mut guarded = Guarded::new(Protection::Pcrc, [0; FRAME]);
    for _ in 0..rounds(4000, 4) {
        let len = 1 + rng.below(64);
        let start = rng.below(FRAME - len + 1);
        let fill = std::vec![rng.change(); len];
        assert!(corrected(&mut guarded, start, &fill), "{len} bytes at {start}");
    }
}

#[test]
fn bursts_are_corrected_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(4);
        let mut guarded = Guarded::new(Protection::Pcrc, rng.frame());
        for _ in 0..rounds(300, 3) {
            let len = 1 + rng.below(64);
            let start = rng.below(FRAME - len + 1);
            let damage: std::vec::Vec<u8> = (0..len).map(|_| rng.change()).collect();
            assert!(corrected(&mut guarded, start, &damage));
        }
    });
}

#[test]
fn two_flipped_bits_anywhere_are_corrected() {
    let mut rng = Rng::new(5);
    let mut guarded = Guarded::new(Protection::Pcrc, rng.frame());
    let right = guarded.frame;
    for round in 0..rounds(200, 1) {
        let first = rng.below(FRAME * 8);
        // Every fourth pair at one place of two rows: parity does not see it.
        let second = if round % 4 == 0 {
            (first + 512 * (1 + rng.below(63))) % (FRAME * 8)
        } else {
            rng.below(FRAME * 8)
        };
        if first == second {
            continue;
        }
        for bit in [first, second] {
            guarded.frame[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(guarded.repaired(), Some(right), "bits {first} and {second}");
        guarded.frame = right;
    }
}

#[test]
fn equal_damage_of_two_lines_is_not_taken_for_damage_of_parity() {
    // The silent class of every parity: a fill over a constant area.
    let mut guarded = Guarded::new(Protection::Pcrc, [0; FRAME]);
    guarded.frame[256..512].fill(0x5a);
    assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: true });
    // A swap of two words.
    let mut guarded = Guarded::new(Protection::Pcrc, Rng::new(6).frame());
    for at in 0..8 {
        guarded.frame.swap(64 + at, 640 + at);
    }
    assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: true });
}

#[test]
fn a_burst_of_65_bytes_is_uncorrectable() {
    let mut rng = Rng::new(7);
    for start in [0, 1, 63, 64, 2000, FRAME - 65] {
        let mut guarded = Guarded::new(Protection::Pcrc, rng.frame());
        for byte in &mut guarded.frame[start..start + 65] {
            *byte ^= rng.change();
        }
        assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: false });
    }
}
