//! Every single flip, and sampled pairs.

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "some tests do not run there"))]

use super::*;
use crate::testing::{Rng, rounds};

#[test]
fn every_single_flip_is_found() {
    for bit in (0..BITS).step_by(rounds(1, 1117)) {
        let delta = crc64::delta(bit / 8, &[0], &[1 << (bit % 8)]);
        assert_eq!(delta, delta_of(bit));
        assert_eq!(single(delta), Some(bit));
    }
}

#[cfg(not(miri))]
#[test]
fn pairs_are_found_and_three_flips_are_no_pair() {
    let mut rng = Rng::new(5);
    for _ in 0..rounds(100, 1) {
        let (a, b) = (rng.below(BITS), rng.below(BITS));
        if a == b {
            continue;
        }
        assert_eq!(pair(delta_of(a) ^ delta_of(b)), Some(pattern(&[a, b])));
        let c = (0..BITS).rev().find(|c| *c != a && *c != b).unwrap();
        assert_eq!(pair(delta_of(a) ^ delta_of(b) ^ delta_of(c)), None);
    }
}

#[test]
fn nothing_is_found_for_other_deltas() {
    assert_eq!(single(0), None);
    let mut rng = Rng::new(6);
    for _ in 0..rounds(100_000, 100) {
        let delta = rng.next();
        assert!(single(delta).is_none_or(|bit| delta_of(bit) == delta));
    }
}
