//! What holds for every code: parity and sum follow changes exactly (S-15.2, S-15.3).

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "most tests do not run there"))]

use super::*;
use crate::Protection;
use crate::testing::{Rng, at_every_level, rounds};
use crate::{Verdict, mend};
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

    pub(crate) fn verify(&self) -> bool {
        self.code.verify(&self.frame, &self.parity, self.sum)
    }
}

/// Codes that see damage.
pub(crate) fn watching() -> impl Iterator<Item = Protection> {
    Protection::ALL.into_iter().filter(|code| *code != Protection::Off)
}

/// All that Miri runs of the codes: they are slow there, and their portable paths hold no unsafe code.
#[test]
fn each_code_encodes_follows_and_mends_once() {
    for code in Protection::ALL {
        let mut rng = Rng::new(17);
        let mut guarded = Guarded::new(code, rng.frame());
        guarded.put(1001, &rng.bytes(20));
        assert!(guarded.verify(), "{code}");
        if code.parity_len() > 0 {
            let (mut copy, sums) = (guarded.frame, line::sums(&guarded.frame));
            copy[61..67].copy_from_slice(b"stray!");
            let Verdict::Repair(repair) = mend::locate(code, &copy, &guarded.parity, &sums, |_| true) else {
                panic!("{code}: six bytes are within the code");
            };
            repair.apply(&mut copy);
            assert_eq!(copy, guarded.frame, "{code}");
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
        for _ in 0..rounds(50, 3) {
            let offset = rng.below(FRAME - 16);
            guarded.put(offset, &rng.bytes(16));
        }
        // Even if it was overwritten: the parity and the sum still carry it (S-15.11 is about that).
        assert!(!guarded.verify(), "{code}");
    }
}

#[cfg(not(miri))]
#[test]
fn content_with_another_crc_is_not_verified() {
    let frame = Rng::new(11).frame();
    let crc = crc64::full(&frame);
    let (sums, verified) = Verified::by_lines(&frame, crc);
    let verified = verified.expect("its own CRC");
    assert_eq!((verified.crc(), verified.data()), (crc, &frame));
    assert_eq!(sums, line::sums(&frame));
    assert!(Verified::by_lines(&frame, crc ^ 1).1.is_none());
}

#[cfg(not(miri))]
#[test]
#[should_panic]
fn parity_of_another_code_is_refused() {
    let guarded = Guarded::new(Protection::Pcrc, [0; FRAME]);
    Protection::Evenodd64.verify(&guarded.frame, &guarded.parity, guarded.sum);
}
