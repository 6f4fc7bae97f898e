//! pcrc and pq: bursts, strays apart, whole rows (S-15.31).

use super::*;

const CODES: [Protection; 2] = [Protection::Pcrc, Protection::Pq];

/// A burst of `len` bytes that begins at `within` of a line, over the line's end if it is long enough.
fn is_mended(right: &World, rng: &mut Rng, within: usize, len: usize) -> bool {
    let lines = if within + len > LINE { LINES - 1 } else { LINES };
    let start = rng.below(lines) * LINE + within;
    let mut damage = rng.bytes(len);
    // Bytes between may be as they were.
    damage[0] |= 1;
    damage[len - 1] |= 1;
    let mut world = right.clone();
    let bytes = world.data[start..].iter_mut();
    bytes.zip(damage).for_each(|(byte, xor)| *byte ^= xor);
    world.is_mended()
}

/// S-15.21: all bursts of up to 64 bytes, wherever in a line they begin, over its end too.
#[test]
fn every_burst_is_mended() {
    let mut rng = Rng::new(1);
    for code in CODES {
        let right = World::of(code, rng.frame());
        for len in 1..=ROW {
            for within in 0..LINE {
                assert!(
                    is_mended(&right, &mut rng, within, len),
                    "{code}: {len} bytes at {within}"
                );
            }
        }
    }
}

/// S-15.21: bursts that begin anywhere in a line, among them the longest.
#[test]
fn bursts_are_mended_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(2);
        for code in CODES {
            let right = World::of(code, rng.frame());
            for within in 0..LINE {
                for len in [1, 1 + rng.below(ROW), 1 + rng.below(ROW), ROW] {
                    assert!(
                        is_mended(&right, &mut rng, within, len),
                        "{code}: {len} bytes at {within}"
                    );
                }
            }
        }
    });
}

/// S-15.21: bursts of one value over equal bytes.
#[test]
fn fills_of_equal_bytes_are_mended() {
    at_every_level(|| {
        let mut rng = Rng::new(3);
        for code in CODES {
            let right = World::of(code, [0; FRAME]);
            for _ in 0..300 {
                let len = 1 + rng.below(ROW);
                let start = rng.below(FRAME - len + 1);
                let mut world = right.clone();
                world.data[start..start + len].fill(rng.change());
                assert!(world.is_mended(), "{code}: {len} bytes at {start}");
            }
        }
    });
}

/// S-15.21: strays in up to four lines, or in one, whose columns do not overlap.
#[test]
fn strays_whose_columns_are_apart_are_mended() {
    at_every_level(|| {
        let mut rng = Rng::new(4);
        for code in CODES {
            let right = World::of(code, rng.frame());
            for round in 0..60 {
                let mut world = right.clone();
                let mut columns: Vec<usize> = (0..4).map(|word| 2 * word).collect();
                let mut places = Vec::new();
                for _ in 0..2 + round % 3 {
                    let column = columns.swap_remove(rng.below(columns.len()));
                    // Every fourth time all in one line.
                    let row = if round % 4 == 0 {
                        8 + rng.below(OF_LINE)
                    } else {
                        rng.below(64)
                    };
                    places.push(row * ROW + 8 * column);
                    world.scribble(&mut rng, row * ROW + 8 * column, 8);
                }
                assert!(world.is_mended(), "{code}: {places:?}");
            }
        }
    });
}

/// S-15.21: a burst of 65 bytes is beyond pcrc, and within pq.
#[test]
fn bursts_of_65_bytes_are_for_pq() {
    at_every_level(|| {
        let mut rng = Rng::new(5);
        let [pcrc, pq] = CODES.map(|code| World::of(code, rng.frame()));
        for start in (0..=FRAME - 65).step_by(37) {
            let (mut pcrc, mut pq) = (pcrc.clone(), pq.clone());
            pcrc.scribble(&mut rng, start, 65);
            assert!(pcrc.is_uncorrectable(), "at {start}");
            pq.scribble(&mut rng, start, 65);
            assert!(pq.is_mended(), "at {start}");
        }
    });
}

/// S-15.10, S-15.21: equal damage in two rows, of one line or of two, which P does not see: never taken for bad sums, mended
/// by pq.
#[test]
fn equal_damage_of_two_rows_is_for_pq() {
    at_every_level(|| {
        let mut rng = Rng::new(6);
        let worlds = CODES.map(|code| World::of(code, [0; FRAME]));
        for (first, second) in [(8, 11), (8, 9), (3, 4), (0, 63), (20, 41)] {
            let value = rng.change();
            for mut world in worlds.clone() {
                for row in [first, second] {
                    world.data[row * ROW..][..ROW].fill(value);
                }
                match world.code {
                    Protection::Pcrc => assert!(world.is_uncorrectable(), "rows {first} and {second}"),
                    _ => assert!(world.is_mended(), "rows {first} and {second}"),
                }
            }
        }
        // A fill of a whole line, and two words that changed places.
        let [mut filled, _] = worlds;
        filled.data[LINE..2 * LINE].fill(0x5a);
        assert!(filled.is_uncorrectable());
        let mut swapped = World::of(Protection::Pcrc, rng.frame());
        (0..8).for_each(|at| swapped.data.swap(64 + at, 640 + at));
        assert!(swapped.is_uncorrectable());
    });
}

/// The world with these rows damaged.
fn after_rows(right: &World, rng: &mut Rng, rows: &[usize]) -> World {
    let mut world = right.clone();
    rows.iter().for_each(|row| world.scribble(rng, row * ROW, ROW));
    world
}

/// S-15.21: pq mends whatever happened in any two rows.
#[test]
fn any_two_rows_are_mended_by_pq() {
    let mut rng = Rng::new(7);
    let right = World::of(Protection::Pq, rng.frame());
    for second in 1..64 {
        for first in 0..second {
            let world = after_rows(&right, &mut rng, &[first, second]);
            assert!(world.is_mended(), "rows {first} and {second}");
        }
    }
}

/// S-15.21: two rows of one line, of neighbours, of lines far apart.
#[test]
fn two_rows_are_mended_by_pq_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(8);
        let right = World::of(Protection::Pq, rng.frame());
        for round in 0..90 {
            let first = rng.below(64);
            let second = (first + 1 + rng.below([3, 7, 63][round % 3])) % 64;
            let world = after_rows(&right, &mut rng, &[first, second]);
            assert!(world.is_mended(), "rows {first} and {second}");
        }
    });
}

/// S-15.21: one row, and P or Q.
#[test]
fn a_row_with_a_bad_parity_is_mended_by_pq() {
    at_every_level(|| {
        let mut rng = Rng::new(9);
        let right = World::of(Protection::Pq, rng.frame());
        for row in 0..64 {
            for parity in [0..ROW, ROW..2 * ROW] {
                let mut world = after_rows(&right, &mut rng, &[row]);
                scribble(&mut rng, &mut world.parity[parity.clone()]);
                assert!(world.is_mended(), "row {row}, parity {parity:?}");
            }
        }
    });
}

/// S-15.21: three rows are beyond pq, in one line or in three.
#[test]
fn three_rows_are_uncorrectable() {
    at_every_level(|| {
        let mut rng = Rng::new(10);
        let right = World::of(Protection::Pq, rng.frame());
        for rows in [[3, 40, 63], [4, 5, 6], [8, 9, 60]] {
            let world = after_rows(&right, &mut rng, &rows);
            assert!(world.is_uncorrectable(), "rows {rows:?}");
        }
    });
}
