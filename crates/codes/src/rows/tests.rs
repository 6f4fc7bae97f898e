//! Row parities against their definition (S-15.6, S-15.7).

use super::*;
use crate::gf256::{POWERS, product};
use crate::testing::{Rng, at_every_level, rounds};

fn by_definition(data: &[u8; FRAME]) -> (Row, Row) {
    let (mut p, mut q) = ([0; ROW], [0; ROW]);
    for (at, byte) in data.iter().enumerate() {
        p[at % ROW] ^= byte;
        q[at % ROW] ^= product(POWERS[at / ROW], *byte);
    }
    (p, q)
}

#[test]
fn parities_are_those_of_the_definition_at_every_level() {
    at_every_level(|| {
        for seed in 0..rounds(200, 2) as u64 {
            let data = Rng::new(seed).frame();
            let truth = by_definition(&data);
            assert_eq!(pq(of(&data)), truth);
            assert_eq!(p(of(&data)), truth.0);
        }
    });
}

#[test]
fn a_row_times_a_constant_is_byte_by_byte() {
    let row: Row = Rng::new(4).bytes(ROW).try_into().unwrap();
    assert_eq!(times(0x57, &row), row.map(|byte| product(byte, 0x57)));
}
