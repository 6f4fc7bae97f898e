//! S-15.21.

use super::*;
use crate::testing::{Rng, rounds};
use crate::{PARITY_MAX, Verified};
use std::vec::Vec;

const ALL: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

struct World {
    code: Protection,
    right: [u8; FRAME],
    data: [u8; FRAME],
    parity: Vec<u8>,
    sums: [u64; LINES],
}

impl World {
    fn of(code: Protection, rng: &mut Rng) -> World {
        let right = rng.frame();
        let mut parity = [0; PARITY_MAX];
        let parity = &mut parity[..code.parity_len()];
        code.encode(Verified::made(&right), parity);
        World {
            code,
            right,
            data: right,
            parity: parity.to_vec(),
            sums: line::sums(&right),
        }
    }

    /// Other bytes from `at` on, none of them as it was.
    fn scribble(&mut self, rng: &mut Rng, at: usize, len: usize) {
        self.data[at..at + len]
            .iter_mut()
            .for_each(|byte| *byte ^= rng.change());
    }

    fn locate(&self) -> Verdict {
        locate(self.code, &self.data, &self.parity, &self.sums, |bytes| {
            *bytes == self.right
        })
    }

    /// The same where nothing else is known of the bytes.
    fn locate_alone(&self) -> Verdict {
        locate(self.code, &self.data, &self.parity, &self.sums, |_| true)
    }

    fn is_mended(&self) -> bool {
        let (Verdict::Repair(one), Verdict::Repair(other)) = (self.locate(), self.locate_alone()) else {
            return false;
        };
        let mut copy = self.data;
        one.apply(&mut copy);
        one == other && copy == self.right
    }
}

/// S-15.21: a frame without damage is clean; parity or sums that alone are bad are told as that.
#[test]
fn what_is_bad_is_told() {
    let mut rng = Rng::new(1);
    for code in ALL {
        let mut world = World::of(code, &mut rng);
        assert_eq!(world.locate(), Verdict::Clean);
        world.sums[3] ^= 1 << 40;
        world.sums[9] ^= rng.next();
        let right = crc64::full(&world.right);
        assert_eq!(world.locate(), Verdict::SumBad { right }, "{code}");
        world.sums = line::sums(&world.right);
        if code.parity_len() > 0 {
            world.parity[5] ^= 4;
            assert_eq!(world.locate(), Verdict::ParityBad, "{code}");
        }
    }
    let world = World::of(Protection::Off, &mut rng);
    assert_eq!(world.locate(), Verdict::Clean);
}

/// S-15.21: where the second sum does not agree with bytes that have all their sums, nothing is said about them.
#[test]
fn the_second_sum_is_asked() {
    let mut rng = Rng::new(2);
    for code in ALL {
        let mut world = World::of(code, &mut rng);
        world.data[0] ^= 1;
        world.sums = line::sums(&world.data);
        assert!(matches!(world.locate(), Verdict::Uncorrectable { .. }), "{code}");
    }
}

/// S-15.21: any burst of up to 64 bytes, wherever it begins, over the end of a line too.
#[test]
fn bursts_are_mended() {
    let mut rng = Rng::new(3);
    for code in [Protection::Pcrc, Protection::Pq] {
        for _ in 0..rounds(3000, 3) {
            let len = 1 + rng.below(64);
            let at = rng.below(FRAME - len + 1);
            let mut world = World::of(code, &mut rng);
            world.scribble(&mut rng, at, len);
            assert!(world.is_mended(), "{code}: {len} bytes at {at}");
        }
    }
}

/// S-15.21: strays in several lines, and in one, whose columns do not overlap.
#[test]
fn strays_whose_columns_are_apart_are_mended() {
    let mut rng = Rng::new(4);
    for code in [Protection::Pcrc, Protection::Pq] {
        for _ in 0..rounds(600, 2) {
            let mut world = World::of(code, &mut rng);
            let strays = 2 + rng.below(2);
            let mut columns: Vec<usize> = (0..4).map(|word| 2 * word).collect();
            let mut places = Vec::new();
            for _ in 0..strays {
                let column = columns.swap_remove(rng.below(columns.len()));
                let at = rng.below(64) * ROW + 8 * column;
                places.push(at);
                world.scribble(&mut rng, at, 8);
            }
            assert!(world.is_mended(), "{code}: {places:?}");
        }
    }
}

/// S-15.21: one or two flipped bits in a line are told by its sum alone.
#[test]
fn flips_are_mended_without_parity() {
    let mut rng = Rng::new(5);
    for _ in 0..rounds(200, 2) {
        let mut world = World::of(Protection::Crc, &mut rng);
        for number in [2, 11] {
            let (one, other) = (rng.below(8 * LINE), rng.below(8 * LINE));
            for bit in [one, other] {
                world.data[number * LINE + bit / 8] ^= 1 << (bit % 8);
            }
        }
        match world.locate() {
            Verdict::Clean => assert_eq!(world.data, world.right),
            Verdict::Repair(repair) => {
                repair.apply(&mut world.data);
                assert_eq!(world.data, world.right);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// S-15.21: pq mends whatever happened in two rows of the lines that fail.
#[test]
fn two_rows_are_mended_by_pq() {
    let mut rng = Rng::new(6);
    for _ in 0..rounds(500, 2) {
        let mut world = World::of(Protection::Pq, &mut rng);
        let (one, other) = (rng.below(64), rng.below(64));
        world.scribble(&mut rng, one * ROW, ROW);
        if one != other {
            world.scribble(&mut rng, other * ROW, ROW);
        }
        assert!(world.is_mended(), "rows {one} and {other}");
    }
}

/// S-15.21: a stray in one line and another in the sum of a second line.
#[test]
fn a_sum_that_is_bad_beside_a_stray_is_found() {
    let mut rng = Rng::new(7);
    for code in ALL.into_iter().skip(1) {
        for _ in 0..rounds(200, 2) {
            let mut world = World::of(code, &mut rng);
            let line = rng.below(LINES);
            let at = line * LINE + rng.below(LINE - 16);
            world.scribble(&mut rng, at, 16);
            world.sums[(line + 5) % LINES] ^= rng.next();
            assert!(world.is_mended(), "{code}: {at}");
        }
    }
}

/// S-15.21: damage beyond the code is never repaired wrongly.
#[test]
fn more_is_never_mended_wrongly() {
    let mut rng = Rng::new(8);
    for code in ALL {
        for _ in 0..rounds(400, 2) {
            let mut world = World::of(code, &mut rng);
            for _ in 0..2 + rng.below(3) {
                let len = 1 + rng.below(200);
                let at = rng.below(FRAME - len);
                world.scribble(&mut rng, at, len);
            }
            if let Verdict::Repair(repair) = world.locate_alone() {
                let mut copy = world.data;
                repair.apply(&mut copy);
                assert_eq!(copy, world.right, "{code}");
            }
        }
    }
}
