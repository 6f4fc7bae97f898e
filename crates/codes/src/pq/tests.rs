//! pq: all pairs of rows, rows with a bad parity, the longest bursts (S-15.7, S-15.10).

use super::*;
use crate::Protection;
use crate::code::tests::Guarded;
use crate::rows::ROWS;
use crate::testing::{Rng, at_every_level, rounds};

fn scribble(rng: &mut Rng, bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= rng.change());
}

/// Damages some rows and asks.
fn after_lines(guarded: &Guarded, rng: &mut Rng, rows: &[usize]) -> Guarded {
    let mut damaged = Guarded {
        frame: guarded.frame,
        parity: guarded.parity.clone(),
        ..*guarded
    };
    for row in rows {
        scribble(rng, &mut damaged.frame[row * ROW..][..ROW]);
    }
    damaged
}

#[test]
fn any_two_lines_are_corrected() {
    let mut rng = Rng::new(1);
    let guarded = Guarded::new(Protection::Pq, rng.frame());
    let step = rounds(1, 60);
    for second in (1..ROWS).step_by(step) {
        for first in (0..second).step_by(step) {
            let damaged = after_lines(&guarded, &mut rng, &[first, second]);
            assert_eq!(damaged.repaired(), Some(guarded.frame), "rows {first} and {second}");
        }
    }
}

#[test]
fn two_lines_are_corrected_at_every_level() {
    at_every_level(|| {
        let mut rng = Rng::new(2);
        let guarded = Guarded::new(Protection::Pq, rng.frame());
        for _ in 0..rounds(40, 1) {
            let (first, second) = (rng.below(ROWS), rng.below(ROWS));
            let damaged = after_lines(&guarded, &mut rng, &[first, second]);
            if first != second {
                assert_eq!(damaged.repaired(), Some(guarded.frame), "rows {first} and {second}");
            }
        }
    });
}

#[test]
fn one_line_with_a_bad_parity_is_corrected() {
    let mut rng = Rng::new(3);
    let guarded = Guarded::new(Protection::Pq, rng.frame());
    for row in (0..ROWS).step_by(rounds(1, 63)) {
        for parity in [0..0, 0..ROW, ROW..2 * ROW] {
            let mut damaged = after_lines(&guarded, &mut rng, &[row]);
            scribble(&mut rng, &mut damaged.parity[parity.clone()]);
            assert_eq!(damaged.repaired(), Some(guarded.frame), "row {row}, parity {parity:?}");
        }
    }
}

#[test]
fn bursts_of_65_bytes_are_corrected() {
    let mut rng = Rng::new(4);
    let guarded = Guarded::new(Protection::Pq, rng.frame());
    for start in (0..=FRAME - 65).step_by(rounds(7, 2017)) {
        let mut damaged = after_lines(&guarded, &mut rng, &[]);
        scribble(&mut rng, &mut damaged.frame[start..start + 65]);
        assert_eq!(damaged.repaired(), Some(guarded.frame), "at {start}");
    }
}

#[test]
fn equal_damage_of_two_lines_is_corrected_where_parity_alone_is_blind() {
    let mut guarded = Guarded::new(Protection::Pq, [0; FRAME]);
    guarded.frame[512..576].fill(9);
    guarded.frame[704..768].fill(9);
    assert_eq!(guarded.repaired(), Some([0; FRAME]));
}

#[test]
fn three_lines_are_uncorrectable() {
    let mut rng = Rng::new(5);
    let guarded = Guarded::new(Protection::Pq, rng.frame());
    for _ in 0..rounds(50, 1) {
        let damaged = after_lines(&guarded, &mut rng, &[3, 40, 63]);
        assert_eq!(damaged.locate(), Verdict::Uncorrectable { parity_agrees: false });
    }
}
