//! Runs of wrong bits, found and not found.

use super::*;
use crate::FRAME;
use crate::testing::{Rng, at_every_level, rounds};
use std::vec::Vec;

/// A page whose last 8 bytes are the CRC-64 of the others behind a seed.
struct Page {
    seed: u64,
    bytes: [u8; FRAME],
}

impl Page {
    fn new(rng: &mut Rng) -> Page {
        let mut page = Page {
            seed: rng.next(),
            bytes: rng.frame(),
        };
        let crc = page.crc();
        page.bytes[FRAME - 8..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    fn crc(&self) -> u64 {
        crc64::more(self.seed, &self.bytes[..FRAME - 8])
    }

    fn find(&self) -> Option<Burst> {
        let stored = u64::from_le_bytes(*self.bytes.last_chunk().expect("8 bytes"));
        Burst::find(stored ^ self.crc(), FRAME)
    }
}

/// A run from bit `first` on, the first and the last bit of its `len` wrong.
fn run(rng: &mut Rng, first: usize, len: usize) -> Vec<usize> {
    let inner = (1..len.saturating_sub(1)).filter(|_| rng.next() & 1 == 1);
    let mut bits: Vec<usize> = inner.map(|bit| first + bit).collect();
    bits.extend([first, first + len - 1]);
    bits.sort_unstable();
    bits.dedup();
    bits
}

fn flip(page: &mut Page, bits: &[usize]) {
    bits.iter().for_each(|bit| page.bytes[bit / 8] ^= 1 << (bit % 8));
}

const BITS: usize = 8 * FRAME;

/// S-9.24: every length, at the page's ends, at those of the stored sum, and anywhere.
#[test]
fn every_short_run_is_found() {
    at_every_level(short_runs);
}

fn short_runs() {
    let mut rng = Rng::new(1);
    let right = Page::new(&mut rng);
    assert_eq!(right.find(), None);
    for len in (1..=LONGEST as usize).step_by(rounds(1, 15)) {
        let ends = [
            0,
            1,
            15,
            16,
            31,
            47,
            BITS - 65,
            BITS - 64,
            BITS - 63,
            BITS - 17,
            BITS - len,
        ];
        let anywhere: Vec<usize> = (0..rounds(300, 2)).map(|_| rng.below(BITS - len + 1)).collect();
        let places = ends.into_iter().chain(anywhere).filter(|first| first + len <= BITS);
        for first in places.step_by(rounds(1, 6)) {
            let mut page = Page { ..right };
            let bits = run(&mut rng, first, len);
            flip(&mut page, &bits);
            let found = page.find().unwrap_or_else(|| panic!("{len} bits at {first}"));
            assert!(found.bits().map(|(byte, bit)| 8 * byte + usize::from(bit)).eq(bits));
            found.flip(&mut page.bytes);
            assert!(page.bytes == right.bytes, "{len} bits at {first}");
        }
    }
}

/// S-9.24: every single bit.
#[cfg(not(miri))]
#[test]
fn every_flipped_bit_is_found() {
    for bit in 0..BITS {
        let mut syndrome = Page {
            seed: !0,
            bytes: [0; FRAME],
        };
        let none = syndrome.crc();
        flip(&mut syndrome, &[bit]);
        let stored = u64::from_le_bytes(*syndrome.bytes.last_chunk().expect("8 bytes"));
        let found = Burst::find(stored ^ syndrome.crc() ^ none, FRAME);
        assert_eq!(found, Some(Burst { first: bit, wrong: 1 }));
    }
}

/// S-9.25: of 17 bits and more, and of two runs, nothing is made of what it was not.
#[cfg(not(miri))]
#[test]
fn more_is_not_found() {
    let mut rng = Rng::new(2);
    let right = Page::new(&mut rng);
    for round in 0..100_000 {
        let mut page = Page { ..right };
        let bits = match round % 3 {
            0 => {
                let len = 17 + rng.below(200);
                let first = rng.below(BITS - len);
                run(&mut rng, first, len)
            }
            1 => {
                let mut one = || {
                    let (first, len) = (rng.below(BITS - 16), 1 + rng.below(16));
                    run(&mut rng, first, len)
                };
                let mut bits = one();
                bits.extend(one());
                bits.sort_unstable();
                bits.dedup();
                bits
            }
            _ => {
                // A write that the power cut: sectors of something else.
                let from = 512 * rng.below(8);
                page.bytes[from..].fill(rng.next() as u8);
                assert_eq!(page.find(), None, "round {round}");
                continue;
            }
        };
        flip(&mut page, &bits);
        let is_short = bits[bits.len() - 1] - bits[0] < LONGEST as usize;
        assert_eq!(page.find().is_some(), is_short, "round {round}: {bits:?}");
    }
}

/// S-9.25: no two runs have one syndrome. By linearity and division by x it is enough to ask for those that end with the page.
#[cfg(not(miri))]
#[test]
fn a_run_is_the_only_one_with_its_syndrome() {
    for wrong in (1..=u16::MAX).step_by(2) {
        let len = 16 - wrong.leading_zeros() as usize;
        let ends = u64::from(wrong) << (64 - len);
        let is_it = |found: Burst| (found.first, found.wrong) == (BITS - len, wrong);
        assert!(all(ends, FRAME).all(is_it), "{wrong:#x}");
        assert_eq!(all(ends, FRAME).next().map(is_it), Some(true));
    }
}

/// S-9.25: two flipped bits, however they lie in a page, are no run but what they are.
#[cfg(not(miri))]
#[test]
fn two_flipped_bits_are_no_other_run() {
    // The second stands in the middle of two pages, so that runs are looked for on both sides of both.
    let second = NVME.power(BITS as u64);
    let mut first = NVME.step(second);
    for distance in 1..BITS {
        let found = all(first ^ second, 3 * FRAME).filter(|found| {
            let at = 2 * BITS - distance - 1;
            (found.first, found.wrong) != (at, 1 | 1_u16.checked_shl(distance as u32).unwrap_or(0))
        });
        assert_eq!(found.count(), 0, "{distance} bits apart");
        first = NVME.step(first);
    }
}
