//! evenodd64 and evenodd256 with the CRC: any two columns of a block, two blocks, many blocks, fills (S-15.8, S-15.10).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::testing::{Rng, at_every_level, rounds};

const CODES: [(Protection, Evenodd); 2] = [
    (Protection::Evenodd64, Evenodd::Blocks64),
    (Protection::Evenodd256, Evenodd::Blocks256),
];

fn scribble(rng: &mut Rng, bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= rng.change());
}

/// The frame with these columns damaged is corrected.
fn assert_corrected(guarded: &mut Guarded, rng: &mut Rng, columns: &[usize]) {
    let right = guarded.frame;
    for column in columns {
        scribble(rng, &mut guarded.frame[column * COLUMN..][..COLUMN]);
    }
    assert_eq!(guarded.repaired(), Some(right), "columns {columns:?}");
    guarded.frame = right;
}

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

#[test]
fn any_two_columns_of_any_block_are_corrected() {
    for (protection, code) in CODES {
        let mut rng = Rng::new(2);
        let mut guarded = Guarded::new(protection, rng.frame());
        for block in (0..code.blocks()).step_by(rounds(code.blocks() / 4, code.blocks())) {
            let first_of_block = block * code.columns();
            for second in (0..code.columns()).step_by(rounds(1, 3)) {
                for first in (0..=second).step_by(rounds(1, 3)) {
                    let columns = [first_of_block + first, first_of_block + second];
                    let columns = if first == second { &columns[..1] } else { &columns };
                    assert_corrected(&mut guarded, &mut rng, columns);
                }
            }
        }
    }
}

#[test]
fn a_column_with_a_bad_parity_is_corrected() {
    for (protection, code) in CODES {
        let mut rng = Rng::new(3);
        let mut guarded = Guarded::new(protection, rng.frame());
        for column in (0..COLUMNS).step_by(rounds(5, 200)) {
            for half in [0, COLUMN] {
                let parity = guarded.parity.clone();
                let at = column / code.columns() * PARITY + half;
                scribble(&mut rng, &mut guarded.parity[at..at + COLUMN]);
                assert_corrected(&mut guarded, &mut rng, &[column]);
                guarded.parity = parity;
            }
        }
    }
}

#[test]
fn two_columns_in_each_of_two_blocks_are_corrected() {
    at_every_level(|| {
        for (protection, code) in CODES {
            let mut rng = Rng::new(4);
            let mut guarded = Guarded::new(protection, rng.frame());
            let k = code.columns();
            for _ in 0..rounds(10, 1) {
                let (first, second) = (rng.below(code.blocks() / 2), rng.below(code.blocks() / 2));
                let second = code.blocks() / 2 + second;
                assert_corrected(
                    &mut guarded,
                    &mut rng,
                    &[first * k, first * k + 3, second * k + 1, second * k + 2],
                );
            }
        }
    });
}

#[test]
fn one_column_in_every_block_is_corrected() {
    for (protection, code) in CODES {
        let mut rng = Rng::new(5);
        let mut guarded = Guarded::new(protection, rng.frame());
        let columns: std::vec::Vec<usize> = (0..code.blocks())
            .map(|block| block * code.columns() + rng.below(code.columns()))
            .collect();
        assert_corrected(&mut guarded, &mut rng, &columns);
    }
}

#[test]
fn a_short_burst_in_every_block_is_corrected() {
    for ((protection, code), len) in CODES.into_iter().zip([15, 9]) {
        let mut rng = Rng::new(6);
        let mut guarded = Guarded::new(protection, rng.frame());
        let right = guarded.frame;
        for block in guarded.frame.chunks_mut(COLUMN * code.columns()) {
            scribble(&mut rng, &mut block[10..10 + len]);
        }
        assert_eq!(guarded.repaired(), Some(right));
    }
}

#[test]
fn bursts_of_16_bytes_are_corrected_everywhere() {
    // Also across the border of two blocks.
    for (protection, _) in CODES {
        let mut rng = Rng::new(7);
        let mut guarded = Guarded::new(protection, rng.frame());
        let right = guarded.frame;
        for start in (0..=FRAME - 16).step_by(rounds(3, 1021)) {
            scribble(&mut rng, &mut guarded.frame[start..start + 16]);
            assert_eq!(guarded.repaired(), Some(right), "at {start}");
            guarded.frame = right;
        }
    }
}

#[test]
fn fills_are_never_taken_for_bad_parity() {
    for (protection, _) in CODES {
        // Two columns with equal damage: the blind decoder's silent class; the CRC corrects it.
        let mut guarded = Guarded::new(protection, [0; FRAME]);
        guarded.frame[128..160].fill(0x33);
        assert_eq!(guarded.repaired(), Some([0; FRAME]));
        // A whole frame: nobody can, and nobody says so.
        let mut guarded = Guarded::new(protection, [0; FRAME]);
        guarded.frame.fill(0x33);
        assert!(matches!(guarded.locate(), Verdict::Uncorrectable { .. }));
    }
}

#[test]
fn three_columns_of_a_block_are_uncorrectable() {
    for (protection, _) in CODES {
        let mut rng = Rng::new(8);
        let mut guarded = Guarded::new(protection, rng.frame());
        scribble(&mut rng, &mut guarded.frame[64..64 + 3 * COLUMN]);
        assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: false });
    }
}
