//! The parity of pcrc (S-15.6).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::testing::{Rng, at_every_level};

#[test]
fn parity_is_the_xor_of_the_rows() {
    at_every_level(|| {
        let guarded = Guarded::new(Protection::Pcrc, Rng::new(1).frame());
        for (at, byte) in guarded.parity.iter().enumerate() {
            let column = guarded.frame.iter().skip(at).step_by(ROW);
            assert_eq!(*byte, column.fold(0, |sum, byte| sum ^ byte));
        }
    });
}
