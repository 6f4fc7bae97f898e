//! The parity of evenodd64 and evenodd256 (S-15.8).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::testing::{Rng, at_every_level};

const CODES: [(Protection, Evenodd); 2] = [
    (Protection::Evenodd64, Evenodd::Blocks64),
    (Protection::Evenodd256, Evenodd::Blocks256),
];

#[test]
fn parity_of_a_frame_is_that_of_its_blocks() {
    at_every_level(|| {
        for (protection, code) in CODES {
            let guarded = Guarded::new(protection, Rng::new(1).frame());
            let blocks = guarded.frame.chunks(COLUMN * code.columns());
            assert_eq!(blocks.len(), code.blocks());
            for (block, parity) in blocks.zip(guarded.parity.chunks(PARITY)) {
                assert_eq!(block::encode(block), parity);
            }
        }
    });
}
