//! What holds for every code: parity and sum follow changes exactly (S-15.2, S-15.3), verdicts are honest (S-15.10), and a
//! repair says what it would change (S-15.11).

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "most tests do not run there"))]

use super::*;
use crate::Protection;
use crate::flips;
use crate::testing::{Rng, at_every_level, rounds};
use std::vec;
use std::vec::Vec;

/// A frame under a code.
pub(crate) struct Guarded {
    pub(crate) code: Protection,
    pub(crate) frame: [u8; FRAME],
    pub(crate) parity: Vec<u8>,
    pub(crate) sum: u64,
}

impl Guarded {
    pub(crate) fn new(code: Protection, frame: [u8; FRAME]) -> Self {
        let mut parity = vec![0; code.parity_len()];
        let sum = code.encode(Verified::made(&frame), &mut parity);
        Self {
            code,
            frame,
            parity,
            sum,
        }
    }

    /// A legal change.
    pub(crate) fn put(&mut self, offset: usize, new: &[u8]) {
        let place = &mut self.frame[offset..offset + new.len()];
        self.code.update(&mut self.parity, &mut self.sum, offset, place, new);
        place.copy_from_slice(new);
    }

    pub(crate) fn locate(&self) -> Verdict {
        self.code.locate(&self.frame, &self.parity, self.sum)
    }

    pub(crate) fn verify(&self) -> bool {
        self.code.verify(&self.frame, &self.parity, self.sum)
    }

    /// The frame as the verdict's repair makes it.
    pub(crate) fn repaired(&self) -> Option<[u8; FRAME]> {
        let Verdict::Repair(repair) = self.locate() else {
            return None;
        };
        let mut copy = self.frame;
        repair.apply(&mut copy);
        Some(copy)
    }
}

/// Codes that see damage.
pub(crate) fn watching() -> impl Iterator<Item = Protection> {
    Protection::ALL.into_iter().filter(|code| *code != Protection::Off)
}

/// All that Miri runs of the codes: they are slow there, and their portable paths hold no unsafe code.
#[test]
fn each_code_encodes_follows_and_locates_once() {
    for code in Protection::ALL {
        let mut rng = Rng::new(17);
        let mut guarded = Guarded::new(code, rng.frame());
        guarded.put(1001, &rng.bytes(20));
        assert!(guarded.verify(), "{code}");
        if code.parity_len() > 0 {
            let right = guarded.frame;
            guarded.frame[61..67].copy_from_slice(b"stray!");
            assert_eq!(guarded.repaired(), Some(right), "{code}");
        }
    }
}

#[cfg(not(miri))]
#[test]
fn following_random_changes_equals_encoding_anew_at_every_level() {
    at_every_level(|| {
        for code in Protection::ALL {
            let mut rng = Rng::new(7);
            let mut guarded = Guarded::new(code, rng.frame());
            for round in 0..rounds(400, 6) {
                let offset = rng.below(FRAME);
                let longest = if round % 8 == 0 { FRAME } else { 80 };
                let new = rng.bytes(rng_len(&mut Rng::new(round as u64), longest, offset));
                guarded.put(offset, &new);
                let anew = Guarded::new(code, guarded.frame);
                assert_eq!(
                    (guarded.sum, &guarded.parity),
                    (anew.sum, &anew.parity),
                    "{code} round {round}"
                );
            }
            assert!(guarded.verify());
            assert_eq!(guarded.locate(), Verdict::Clean);
        }
    });
}

#[cfg(not(miri))]
#[test]
fn words_are_changes_like_others_at_every_level() {
    at_every_level(|| {
        for code in Protection::ALL {
            let mut rng = Rng::new(15);
            for index in (0..FRAME / 8).step_by(rounds(1, 61)) {
                let (old, new) = (rng.next(), rng.next());
                let (old_bytes, new_bytes) = (old.to_le_bytes(), new.to_le_bytes());
                let fragment = code.fragment(8 * index, &old_bytes, &new_bytes);
                assert_eq!(code.fragment_word(index, old, new), fragment, "{code} word {index}");
                let folded = |word: bool| {
                    let mut parity = vec![0; code.parity_len() / 8];
                    let fold = |at: usize, xor: u64| parity[at] ^= xor;
                    if word {
                        code.fold_word(index, old ^ new, fold);
                    } else {
                        code.fold(8 * index, &old_bytes, &new_bytes, fold);
                    }
                    parity
                };
                assert_eq!(folded(true), folded(false), "{code} word {index}");
            }
        }
    });
}

#[cfg(not(miri))]
#[test]
fn pairs_of_words_and_odd_places_are_changes_like_others() {
    for code in Protection::ALL {
        let mut rng = Rng::new(16);
        let mut guarded = Guarded::new(code, rng.frame());
        for (offset, len) in [
            (0, 8),
            (8, 16),
            (4088, 8),
            (4080, 16),
            (4, 8),
            (4, 16),
            (16, 15),
            (24, 24),
            (9, 0),
        ] {
            guarded.put(offset, &rng.bytes(len));
            let anew = Guarded::new(code, guarded.frame);
            assert_eq!(
                (guarded.sum, &guarded.parity),
                (anew.sum, &anew.parity),
                "{code} {len} at {offset}"
            );
        }
    }
}

fn rng_len(rng: &mut Rng, longest: usize, offset: usize) -> usize {
    rng.below(longest + 1).min(FRAME - offset)
}

#[cfg(not(miri))]
#[test]
fn all_levels_encode_the_same() {
    let frame = Rng::new(8).frame();
    for code in Protection::ALL {
        let truth = Guarded::new(code, frame);
        at_every_level(|| {
            let other = Guarded::new(code, frame);
            assert_eq!((other.sum, other.parity), (truth.sum, truth.parity.clone()), "{code}");
        });
    }
}

#[cfg(not(miri))]
proptest::proptest! {
    #[test]
    fn changes_in_any_order_and_merged_fragments_come_to_one_sum(
        seed: u64,
        changes in proptest::collection::vec((0..FRAME, 0..200usize), 1..12),
    ) {
        for code in Protection::ALL {
            let mut rng = Rng::new(seed);
            let start = Guarded::new(code, rng.frame());
            let mut follower = Guarded::new(code, start.frame);
            let mut fragments = 0;
            let mut words = vec![0u64; code.parity_len() / 8];
            for (offset, len) in &changes {
                let new = rng.bytes((*len).min(FRAME - offset));
                let old = follower.frame[*offset..offset + new.len()].to_vec();
                fragments = code.merge(fragments, code.fragment(*offset, &old, &new));
                code.fold(*offset, &old, &new, |word, xor| words[word] ^= xor);
                follower.put(*offset, &new);
            }
            // Fragments gathered apart, as each processor or transaction does, and folded in at the end.
            let mut parity = start.parity.clone();
            for (chunk, word) in parity.chunks_mut(8).zip(&words) {
                chunk.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, xor)| *byte ^= xor);
            }
            proptest::prop_assert_eq!(code.merge(start.sum, fragments), follower.sum);
            proptest::prop_assert_eq!(&parity, &follower.parity);
            let anew = Guarded::new(code, follower.frame);
            proptest::prop_assert_eq!((anew.sum, anew.parity), (follower.sum, follower.parity));
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_stray_write_stays_visible_through_later_changes() {
    for code in watching() {
        let mut rng = Rng::new(9);
        let mut guarded = Guarded::new(code, rng.frame());
        guarded.frame[1234] ^= 0x10;
        let stray = guarded.frame[1234];
        for _ in 0..rounds(50, 3) {
            let offset = rng.below(FRAME - 16);
            guarded.put(offset, &rng.bytes(16));
        }
        // Even if it was overwritten: the parity and the sum still carry it (S-15.11 is about that).
        assert!(!guarded.verify(), "{code}");
        if guarded.frame[1234] == stray
            && let Some(repaired) = guarded.repaired()
        {
            assert_eq!(repaired[1234], stray ^ 0x10);
        }
    }
}

#[cfg(not(miri))]
#[test]
fn a_stray_write_that_a_change_overwrote_shows_in_what_the_repair_touches() {
    for code in [
        Protection::Pcrc,
        Protection::Pq,
        Protection::Evenodd64,
        Protection::Evenodd256,
    ] {
        let mut guarded = Guarded::new(code, Rng::new(10).frame());
        guarded.frame[800..808].copy_from_slice(b"scribble");
        guarded.put(800, b"the door");
        // The bytes are right, parity and sum are not: the code would "repair" them into wrong ones.
        let Verdict::Repair(repair) = guarded.locate() else {
            panic!("{code}: the syndrome keeps the stray write");
        };
        assert!(repair.touches(800..808));
        assert!(!repair.touches(0..800) && !repair.touches(808..FRAME));
    }
}

#[cfg(not(miri))]
#[test]
fn content_with_another_crc_is_not_verified() {
    let frame = Rng::new(11).frame();
    let crc = crc64::full(&frame);
    let verified = Verified::by_crc(&frame, crc).expect("its own CRC");
    assert_eq!((verified.crc(), verified.data()), (crc, &frame));
    assert!(Verified::by_crc(&frame, crc ^ 1).is_none());
}

#[cfg(not(miri))]
#[test]
fn damage_of_parity_alone_is_told_as_such() {
    at_every_level(|| {
        for code in watching().filter(|code| code.parity_len() > 0) {
            let mut guarded = Guarded::new(code, Rng::new(12).frame());
            for at in (0..guarded.parity.len()).step_by(rounds(13, 401)) {
                guarded.parity[at] ^= 0x40;
                assert!(!guarded.verify());
                assert_eq!(guarded.locate(), Verdict::ParityBad, "{code} parity byte {at}");
                guarded.parity[at] ^= 0x40;
            }
            guarded.parity.fill(0x77);
            assert_eq!(guarded.locate(), Verdict::ParityBad, "{code}");
        }
    });
}

#[cfg(not(miri))]
#[test]
fn one_or_two_flipped_bits_of_a_sum_are_told_as_such() {
    for code in [
        Protection::Crc,
        Protection::Pcrc,
        Protection::Pq,
        Protection::Evenodd64,
        Protection::Evenodd256,
    ] {
        let mut guarded = Guarded::new(code, Rng::new(13).frame());
        let right = guarded.sum;
        for first in (0..64).step_by(rounds(1, 31)) {
            for second in (first..64).step_by(rounds(1, 31)) {
                guarded.sum = right ^ (1 << first) ^ if second == first { 0 } else { 1 << second };
                assert!(!guarded.verify());
                assert_eq!(guarded.locate(), Verdict::SumBad { right }, "{code}");
            }
        }
    }
    // More of it is more than anybody can say (crc would have to search: see its own tests).
    let mut guarded = Guarded::new(Protection::Pq, Rng::new(13).frame());
    guarded.sum ^= 0b1011;
    assert_eq!(guarded.locate(), Verdict::Uncorrectable { parity_agrees: true });
}

#[cfg(not(miri))]
#[test]
fn a_repair_tells_its_ranges() {
    let data = Rng::new(14).frame();
    let crc = crc64::full(&data);
    let mut damaged = data;
    damaged[5] ^= 1;
    damaged[6] ^= 0xff;
    damaged[4095] ^= 2;
    let mut xor = [0; FRAME];
    (xor[5], xor[6], xor[4095]) = (1, 0xff, 2);
    let repair = Repair::confirmed(&damaged, xor, crc).expect("it gives the bytes of the sum");
    assert_eq!(repair.ranges().collect::<Vec<_>>(), [5..7, 4095..4096]);
    assert_eq!(repair.extent(), 5..4096);
    assert_eq!(repair.bits(), 10);
    assert!(repair.touches(6..7) && repair.touches(4095..9999) && !repair.touches(7..4095));
    assert_eq!(repair.xor(), &xor);
    assert_eq!(std::format!("{repair:?}"), "{5..7, 4095..4096}");
    repair.apply(&mut damaged);
    assert_eq!(damaged, data);
    assert!(Repair::confirmed(&damaged, xor, crc).is_none());
}

#[cfg(not(miri))]
#[test]
fn two_confirmed_patterns_are_ambiguous() {
    // No real damage has two (that is 2^-52): one is forged that leaves the CRC as it is.
    let data = [0; FRAME];
    let crc = crc64::full(&data);
    let mut search = Search::new(&data, crc);
    search.offer([0; FRAME]);
    search.offer([0; FRAME]);
    assert!(matches!(search.verdict(true), Verdict::Repair(_)));
    let mut search = Search::new(&data, crc);
    search.offer([0; FRAME]);
    search.offer(neutral());
    assert_eq!(search.verdict(true), Verdict::Ambiguous);
    let mut search = Search::new(&data, crc);
    search.offer(flips::pattern(&[3]));
    assert!(search.is_empty());
    assert_eq!(search.verdict(false), Verdict::Uncorrectable { parity_agrees: false });
}

/// A pattern that does not change the CRC-64: a flipped bit, and a last word that takes its delta back.
fn neutral() -> [u8; FRAME] {
    let mut pattern = flips::pattern(&[0]);
    let word = solve(crc64::delta(0, &[0], &[1]));
    pattern[FRAME - 8..].copy_from_slice(&word.to_le_bytes());
    pattern
}

/// The last word whose delta is `wanted`: Gauss over the 64 deltas of its bits.
fn solve(wanted: u64) -> u64 {
    let mut rows: Vec<(u64, u64)> = (0..64)
        .map(|bit| (crc64::delta_word(511, 1 << bit), 1 << bit))
        .collect();
    let (mut rest, mut word) = (wanted, 0);
    for top in (0..64).rev() {
        let at = rows
            .iter()
            .position(|(delta, _)| delta >> top == 1)
            .expect("the deltas are independent");
        let (delta, bits) = rows.swap_remove(at);
        for row in rows.iter_mut().filter(|(other, _)| other >> top == 1) {
            *row = (row.0 ^ delta, row.1 ^ bits);
        }
        if rest >> top == 1 {
            (rest, word) = (rest ^ delta, word ^ bits);
        }
    }
    assert_eq!(rest, 0);
    word
}

#[cfg(not(miri))]
#[test]
#[should_panic]
fn parity_of_another_code_is_refused() {
    let guarded = Guarded::new(Protection::Pcrc, [0; FRAME]);
    Protection::Evenodd64.verify(&guarded.frame, &guarded.parity, guarded.sum);
}
