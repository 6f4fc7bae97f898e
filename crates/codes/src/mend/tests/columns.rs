//! evenodd64 and evenodd256: columns of blocks (S-15.31).

use super::*;
use crate::evenodd::block::{COLUMN, PARITY};

const CODES: [(Protection, Evenodd); 2] = [
    (Protection::Evenodd64, Evenodd::Blocks64),
    (Protection::Evenodd256, Evenodd::Blocks256),
];

/// Runs `test` with a frame under each of the two codes, at every level.
fn under_both(seed: u64, test: impl Fn(&World, Evenodd, &mut Rng)) {
    at_every_level(|| {
        for (protection, code) in CODES {
            let mut rng = Rng::new(seed);
            let right = World::of(protection, rng.frame());
            test(&right, code, &mut rng);
        }
    });
}

/// The frame with these columns damaged is mended.
fn assert_mended(right: &World, rng: &mut Rng, columns: &[usize]) {
    let mut world = right.clone();
    columns
        .iter()
        .for_each(|column| world.scribble(rng, column * COLUMN, COLUMN));
    assert!(world.is_mended(), "{}: columns {columns:?}", world.code);
}

/// S-15.21: one column, and any two of a block.
#[test]
fn any_two_columns_of_a_block_are_mended() {
    under_both(1, |right, code, rng| {
        let k = code.columns();
        for block in (0..code.blocks()).step_by(code.blocks() / 4) {
            for second in 0..k {
                assert_mended(right, rng, &[block * k + second]);
                for first in 0..second {
                    assert_mended(right, rng, &[block * k + first, block * k + second]);
                }
            }
        }
    });
}

/// S-15.21: a column, and P or Q of its block.
#[test]
fn a_column_with_a_bad_parity_is_mended() {
    under_both(2, |right, code, rng| {
        for column in (0..FRAME / COLUMN).step_by(5) {
            for half in [0, COLUMN] {
                let mut world = right.clone();
                let at = column / code.columns() * PARITY + half;
                scribble(rng, &mut world.parity[at..at + COLUMN]);
                assert_mended(&world, rng, &[column]);
            }
        }
    });
}

/// S-15.21: two columns in each of two blocks, of one line or of two.
#[test]
fn two_columns_in_each_of_two_blocks_are_mended() {
    under_both(3, |right, code, rng| {
        let (k, blocks) = (code.columns(), code.blocks());
        for round in 0..12 {
            let first = rng.below(blocks);
            let second = (first + 1 + rng.below([3, blocks - 1][round % 2])) % blocks;
            let columns = [first * k, first * k + 3, second * k + 1, second * k + 2];
            assert_mended(right, rng, &columns);
        }
    });
}

/// S-15.21: one column in every block.
#[test]
fn a_column_in_every_block_is_mended() {
    under_both(4, |right, code, rng| {
        let columns: Vec<usize> = (0..code.blocks())
            .map(|block| block * code.columns() + rng.below(code.columns()))
            .collect();
        assert_mended(right, rng, &columns);
    });
}

/// S-15.21: a burst of 15 bytes, of 9, in every block, over the end of a column.
#[test]
fn a_short_burst_in_every_block_is_mended() {
    under_both(5, |right, code, rng| {
        let len = if code == Evenodd::Blocks64 { 15 } else { 9 };
        let mut world = right.clone();
        for block in world.data.chunks_mut(COLUMN * code.columns()) {
            scribble(rng, &mut block[10..10 + len]);
        }
        assert!(world.is_mended(), "{}", world.code);
    });
}

/// S-15.21: bursts of 16 bytes, over the ends of columns, blocks and lines too.
#[test]
fn bursts_of_16_bytes_are_mended() {
    under_both(6, |right, _, rng| {
        let ends = (LINE - 16..=FRAME - 16)
            .step_by(LINE)
            .flat_map(|end| end..=(end + 16).min(FRAME - 16));
        for start in (0..=FRAME - 16).step_by(11).chain(ends) {
            let mut world = right.clone();
            world.scribble(rng, start, 16);
            assert!(world.is_mended(), "{}: at {start}", world.code);
        }
    });
}

/// S-15.10, S-15.21: equal damage in two columns, for which parity alone takes it to be bad, is mended; a fill of the whole
/// frame is beyond the code.
#[test]
fn fills_are_never_taken_for_bad_parity() {
    at_every_level(|| {
        for (protection, _) in CODES {
            let mut world = World::of(protection, [0; FRAME]);
            world.data[128..160].fill(0x33);
            assert!(world.is_mended(), "{protection}");
            world.data.fill(0x33);
            assert!(world.is_uncorrectable(), "{protection}");
        }
    });
}

/// S-15.21: three columns of a block are beyond the code.
#[test]
fn three_columns_of_a_block_are_uncorrectable() {
    under_both(7, |right, _, rng| {
        let mut world = right.clone();
        world.scribble(rng, 64, 3 * COLUMN);
        assert!(world.is_uncorrectable(), "{}", world.code);
    });
}
