//! The verdicts of S-15.10 and S-15.21, each with the kernels of every instruction set.

mod columns;
mod rows;

use super::*;
use crate::testing::{Rng, at_every_level};
use crate::{PARITY_MAX, Verified};
use std::vec::Vec;

const ALL: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

/// A frame under a code, and what it should be.
#[derive(Clone)]
struct World {
    code: Protection,
    right: [u8; FRAME],
    data: [u8; FRAME],
    parity: Vec<u8>,
    sums: [u64; LINES],
}

impl World {
    fn of(code: Protection, right: [u8; FRAME]) -> World {
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
        scribble(rng, &mut self.data[at..at + len]);
    }

    fn flip(&mut self, bit: usize) {
        self.data[bit / 8] ^= 1 << (bit % 8);
    }

    /// The verdict, where `agrees` says what the second sum says.
    fn locate_with(&self, agrees: impl Fn(&[u8; FRAME]) -> bool) -> Verdict {
        locate(self.code, &self.data, &self.parity, &self.sums, agrees)
    }

    fn locate(&self) -> Verdict {
        self.locate_with(|bytes| *bytes == self.right)
    }

    /// The same where nothing else is known of the bytes.
    fn locate_alone(&self) -> Verdict {
        self.locate_with(|_| true)
    }

    fn makes_right(&self, verdict: &Verdict) -> bool {
        let Verdict::Repair(repair) = verdict else {
            return false;
        };
        let mut copy = self.data;
        repair.apply(&mut copy);
        copy == self.right
    }

    /// By parity and the sums of lines alone, and with a second sum.
    fn is_mended(&self) -> bool {
        self.makes_right(&self.locate_alone()) && self.makes_right(&self.locate())
    }

    fn is_uncorrectable(&self) -> bool {
        self.locate() == Verdict::Uncorrectable
    }
}

fn scribble(rng: &mut Rng, bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= rng.change());
}

/// S-15.21: a frame without damage is clean; of `off` nothing is said.
#[test]
fn what_is_right_is_clean() {
    at_every_level(|| {
        for code in ALL {
            let world = World::of(code, Rng::new(1).frame());
            assert_eq!(world.locate(), Verdict::Clean, "{code}");
        }
        let mut world = World::of(Protection::Off, Rng::new(1).frame());
        world.data.fill(0);
        assert_eq!(world.locate(), Verdict::Clean);
    });
}

/// S-15.21: parity that alone is bad, in any byte or as a whole, is told as that.
#[test]
fn bad_parity_is_told() {
    at_every_level(|| {
        for code in ALL.into_iter().filter(|code| code.parity_len() > 0) {
            let mut world = World::of(code, Rng::new(2).frame());
            for at in (0..world.parity.len()).step_by(5) {
                world.parity[at] ^= 0x40;
                assert_eq!(world.locate(), Verdict::ParityBad, "{code}: byte {at}");
                world.parity[at] ^= 0x40;
            }
            world.parity.fill(0x77);
            assert_eq!(world.locate(), Verdict::ParityBad, "{code}");
        }
    });
}

/// S-15.21: sums that alone are bad, by any bits, of one line, of neighbours or of all, are told as that.
#[test]
fn bad_sums_are_told() {
    at_every_level(|| {
        let mut rng = Rng::new(3);
        for code in ALL {
            let right = World::of(code, rng.frame());
            for first in 0..64 {
                for second in (first..64).step_by(7) {
                    let mut world = right.clone();
                    world.sums[first % LINES] ^= 1 << first | 1 << second;
                    assert_eq!(world.locate(), Verdict::SumsBad, "{code}: bits {first} and {second}");
                }
            }
            for number in 0..LINES - 1 {
                let mut world = right.clone();
                world.sums[number] = rng.next();
                world.sums[number + 1] = world.sums[number];
                assert_eq!(
                    world.locate(),
                    Verdict::SumsBad,
                    "{code}: lines {number} and its neighbour"
                );
            }
            let mut world = right.clone();
            world.sums.iter_mut().for_each(|sum| *sum = rng.next());
            assert_eq!(world.locate(), Verdict::SumsBad, "{code}");
        }
    });
}

/// S-15.28: nothing but "uncorrectable" is said of bytes that the second sum does not confirm, though all lines have their
/// sums, or a pattern gives them.
#[test]
fn the_second_sum_is_asked() {
    at_every_level(|| {
        let mut rng = Rng::new(4);
        for code in ALL {
            let right = World::of(code, rng.frame());
            let mut follows = right.clone();
            follows.data[0] ^= 1;
            follows.sums = line::sums(&follows.data);
            assert!(follows.is_uncorrectable(), "{code}");
            let (mut stray, mut sum, mut parity) = (right.clone(), right.clone(), right.clone());
            stray.flip(9000);
            sum.sums[3] ^= 1 << 40;
            parity.parity.iter_mut().take(1).for_each(|byte| *byte ^= 4);
            for world in [right, stray, sum, parity] {
                assert_eq!(world.locate_with(|_| false), Verdict::Uncorrectable, "{code}");
            }
        }
    });
}

/// S-15.21: one flipped bit anywhere, without parity.
#[test]
fn every_flipped_bit_is_mended() {
    let mut world = World::of(Protection::Crc, Rng::new(5).frame());
    for bit in 0..FRAME * 8 {
        world.flip(bit);
        assert!(world.makes_right(&world.locate()), "bit {bit}");
        world.flip(bit);
    }
}

/// S-15.21: one or two flipped bits in each line, which parity need not see.
#[test]
fn flips_are_mended() {
    at_every_level(|| {
        let mut rng = Rng::new(6);
        for code in ALL {
            let right = World::of(code, rng.frame());
            for round in 0..24 {
                let mut world = right.clone();
                for number in (round % 5..LINES).step_by(5) {
                    let first = rng.below(8 * LINE);
                    // Every fourth pair at one place of two rows: to P it is nothing.
                    let second = match round % 4 {
                        0 => (first + 8 * ROW * (1 + rng.below(3))) % (8 * LINE),
                        _ => rng.below(8 * LINE),
                    };
                    world.flip(8 * LINE * number + first);
                    if first != second && round % 3 > 0 {
                        world.flip(8 * LINE * number + second);
                    }
                }
                assert!(world.makes_right(&world.locate()), "{code}: round {round}");
            }
        }
    });
}

/// S-15.21: more than two flipped bits in a line are beyond `crc`.
#[test]
fn three_flips_are_beyond_crc() {
    at_every_level(|| {
        let mut rng = Rng::new(7);
        let right = World::of(Protection::Crc, rng.frame());
        for flips in 3..40 {
            let mut world = right.clone();
            let line = 8 * LINE * rng.below(LINES);
            let first = rng.below(40);
            (0..flips).for_each(|flip| world.flip(line + first + 50 * flip));
            assert!(world.is_uncorrectable(), "{flips} bits");
        }
    });
}

/// S-15.21: a stray in one line and another in the sum of a second line.
#[test]
fn a_sum_that_is_bad_beside_a_stray_is_found() {
    at_every_level(|| {
        let mut rng = Rng::new(8);
        for code in ALL.into_iter().skip(1) {
            let right = World::of(code, rng.frame());
            for _ in 0..60 {
                let mut world = right.clone();
                let line = rng.below(LINES);
                let at = line * LINE + rng.below(LINE - 16);
                world.scribble(&mut rng, at, 16);
                world.sums[(line + 1 + rng.below(LINES - 1)) % LINES] ^= rng.next();
                assert!(world.is_mended(), "{code}: {at}");
            }
        }
    });
}

/// S-15.21: of several patterns that give the lines their sums none is chosen, unless the second sum tells which.
#[test]
fn several_patterns_are_ambiguous() {
    at_every_level(|| {
        // No damage has two by chance. Here its first 16 bytes have no delta: they may as well stand a row further on.
        let mut rng = Rng::new(9);
        for code in [Protection::Pcrc, Protection::Pq] {
            let mut world = World::of(code, rng.frame());
            let (first, second) = pair_without_delta(&mut rng);
            let start = 5 * LINE;
            for (at, xor) in [first, second].concat().into_iter().enumerate() {
                world.data[start + at] ^= xor;
            }
            world.scribble(&mut rng, start + 32, 32);
            assert_eq!(world.locate_alone(), Verdict::Ambiguous, "{code}");
            assert!(world.makes_right(&world.locate()), "{code}");
        }
    });
}

/// Two neighbouring words that together leave the CRC-64 as it is, wherever they stand: the second by Gauss over the deltas
/// of its bits.
fn pair_without_delta(rng: &mut Rng) -> ([u8; 8], [u8; 8]) {
    let first = rng.next();
    let (mut rest, mut second) = (crc64::delta_word(0, first), 0);
    let mut rows: Vec<(u64, u64)> = (0..64).map(|bit| (crc64::delta_word(1, 1 << bit), 1 << bit)).collect();
    for top in (0..64).rev() {
        let independent = rows.iter().position(|(delta, _)| delta >> top == 1);
        let (delta, bits) = rows.swap_remove(independent.expect("the deltas are independent"));
        for row in rows.iter_mut().filter(|(other, _)| other >> top == 1) {
            *row = (row.0 ^ delta, row.1 ^ bits);
        }
        if rest >> top == 1 {
            (rest, second) = (rest ^ delta, second ^ bits);
        }
    }
    assert_eq!(rest, 0);
    (first.to_le_bytes(), second.to_le_bytes())
}

/// S-15.10, S-15.21: damage beyond the code is never mended wrongly, though nothing but the sums of lines is asked.
#[test]
fn more_is_never_mended_wrongly() {
    at_every_level(|| {
        let mut rng = Rng::new(10);
        for code in ALL {
            let right = World::of(code, rng.frame());
            for _ in 0..100 {
                let mut world = right.clone();
                for _ in 0..2 + rng.below(3) {
                    let len = 1 + rng.below(200);
                    let at = rng.below(FRAME - len);
                    world.scribble(&mut rng, at, len);
                }
                let verdict = world.locate_alone();
                assert!(
                    !matches!(verdict, Verdict::Repair(_)) || world.makes_right(&verdict),
                    "{code}"
                );
            }
        }
    });
}
