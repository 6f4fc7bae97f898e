//! The ring against polynomials written out byte by byte.

use super::*;
use crate::testing::{Rng, at_every_level, rounds};

/// `column * x^power` modulo 1 + x + … + x^16, by the definition.
fn by_definition(column: u128, power: usize) -> u128 {
    let mut places = [0u8; 17];
    for (place, byte) in column.to_le_bytes().into_iter().enumerate() {
        places[(place + power) % 17] ^= byte;
    }
    let sixteenth = places[16];
    let folded = core::array::from_fn(|place| places[place] ^ sixteenth);
    u128::from_le_bytes(folded)
}

fn column(rng: &mut Rng) -> u128 {
    u128::from(rng.next()) << 64 | u128::from(rng.next())
}

#[test]
fn powers_of_x_rotate_and_fold() {
    let mut rng = Rng::new(1);
    for _ in 0..rounds(300, 3) {
        let column = column(&mut rng);
        for power in 0..=16 {
            assert_eq!(times_x(column, power), by_definition(column, power), "power {power}");
            assert_eq!(over_x(times_x(column, power), power), column);
        }
    }
}

#[test]
fn one_plus_x_has_an_inverse() {
    let mut rng = Rng::new(2);
    for _ in 0..rounds(300, 3) {
        let e = column(&mut rng);
        for distance in 1..=16 {
            let product = e ^ times_x(e, distance);
            assert_eq!(over_one_plus_x(product, distance), e, "distance {distance}");
        }
    }
}

#[test]
fn parities_are_those_of_the_definition() {
    at_every_level(|| {
        let mut rng = Rng::new(3);
        for k in [4, 16] {
            let columns: std::vec::Vec<[u8; 16]> = (0..k).map(|_| column(&mut rng).to_le_bytes()).collect();
            let (mut p, mut q) = (0, 0);
            for (at, column) in columns.iter().enumerate() {
                p ^= u128::from_le_bytes(*column);
                q ^= by_definition(u128::from_le_bytes(*column), at);
            }
            assert_eq!(parities(&columns), (p, q));
        }
    });
}
