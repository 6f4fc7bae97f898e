//! The rounds against an independent crate, and every level against the tables.

use super::*;
use crate::testing::{Rng, at_every_level, rounds as count};

fn schedule(rng: &mut Rng) -> Schedule {
    core::array::from_fn(|_| (rng.next(), rng.next()))
}

#[cfg(not(miri))]
fn oracle(schedule: &Schedule, block: Block) -> Block {
    let bytes = |block: Block| {
        let mut bytes = ::aes::Block::default();
        bytes[..8].copy_from_slice(&block.0.to_le_bytes());
        bytes[8..].copy_from_slice(&block.1.to_le_bytes());
        bytes
    };
    let mut state = bytes((block.0 ^ schedule[0].0, block.1 ^ schedule[0].1));
    for key in &schedule[1..] {
        ::aes::hazmat::cipher_round(&mut state, &bytes(*key));
    }
    let half = |at: usize| u64::from_le_bytes(core::array::from_fn(|byte| state[at + byte]));
    (half(0), half(8))
}

#[test]
fn four_rounds_are_those_of_aes_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(1);
        for _ in 0..count(500, 5) {
            let schedule = schedule(&mut rng);
            let (first, second) = ((rng.next(), rng.next()), (rng.next(), rng.next()));
            let truth = rounds_portable(&schedule, first);
            #[cfg(not(miri))]
            assert_eq!(truth, oracle(&schedule, first));
            assert_eq!(rounds(&schedule, first), truth);
            let apart = difference(&schedule, first, second);
            assert_eq!(apart, difference_portable(&schedule, first, second));
            assert_eq!(apart.1, rounds(&schedule, second).1.wrapping_sub(truth.1));
        }
    });
}

#[test]
fn the_table_of_bytes_is_that_of_the_standard() {
    // FIPS 197, figure 7.
    assert_eq!([0x00, 0x01, 0x53, 0xff].map(substitute), [0x63, 0x7c, 0xed, 0x16]);
}
