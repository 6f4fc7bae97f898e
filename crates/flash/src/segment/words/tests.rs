//! Page 0 survives any one stray write of up to 64 bytes, beside a kill between the places of a word (S-14.10).

use super::*;
use crate::segment::Header;
use crate::twice;
use keepfs_memory::Guard;
use keepfs_memory::failpoint;

/// Bytes of a stray write at most.
const STRAY: usize = 64;

fn segment() -> Segment {
    let segment = Segment::new(4, Guard::Off, false, true).expect("segment");
    for (word, n) in Word::ALL.into_iter().zip(1..) {
        segment.set_word(word, value(n));
    }
    segment
}

fn value(n: u64) -> u64 {
    n << 33 | n
}

fn words(segment: &Segment) -> Vec<Option<u64>> {
    Word::ALL.into_iter().map(|word| segment.word(word)).collect()
}

/// What strays leave: zeros, ones, and bytes of no sense.
fn strays(at: usize) -> [[u8; STRAY]; 3] {
    let mut x = at as u64 ^ 0x9E37_79B9_7F4A_7C15;
    let noise = core::array::from_fn(|_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    });
    [[0; STRAY], [0xFF; STRAY], noise]
}

#[test]
fn one_stray_write_anywhere_changes_nothing() {
    let segment = segment();
    let region = segment.region();
    let mut right = [0; 4096];
    region.load(0, &mut right);
    let header = Header::found(region).right().expect("a header");
    let told = words(&segment);
    // Beyond these there is nothing in page 0.
    let ends = [Word::Refused.at() + 16, Word::Refused.at() + 16 + twice::APART];
    let (mut one, mut all) = (0, 0);
    for at in 0..4096 {
        let is_used = at < ends[0] || (twice::APART - STRAY..ends[1]).contains(&at);
        for bytes in strays(at) {
            for len in (1..=STRAY.min(4096 - at)).filter(|len| is_used || *len == STRAY) {
                region.store(at, &bytes[..len]);
                assert_eq!(Header::found(region).right(), Some(header), "{len} bytes at {at}");
                assert_eq!(words(&segment), told, "{len} bytes at {at}");
                one += usize::from(!segment.changed().is_empty());
                all += 1;
                region.store(at, &right[at..at + len]);
            }
        }
    }
    assert!(one > all / 3, "{one} of {all} were told");
}

/// S-14.16: a kill between the stores of a word, and a stray write at either place: the word is as before or behind its store.
#[test]
fn a_kill_between_the_places_and_a_stray_write() {
    for word in Word::ALL {
        let (mut before, mut behind) = (0, 0);
        for stores in [0, 3, 8, 12, 16, 20, 24, 30, 32] {
            let is_torn = stores % 16 != 0;
            for place in [None, Some(word.at()), Some(word.at() + APART)] {
                let segment = segment();
                let was = segment.word(word);
                let cut = failpoint::run(stores, || segment.set_word(word, 7));
                assert_eq!(cut.is_ok(), stores == 32);
                if let Some(place) = place {
                    segment.region().store(place - 20, &strays(place)[2]);
                }
                let now = segment.word(word);
                // One place torn and the other hit: told.
                let is_told = is_torn && place.is_some() && now.is_none() && !segment.changed().is_empty();
                assert!(now == was || now == Some(7) || is_told, "{word:?}: {now:?}");
                assert!(stores != 0 || now == was);
                assert!(stores != 32 || now == Some(7));
                before += usize::from(now == was);
                behind += usize::from(now == Some(7));
            }
        }
        assert!(before > 2 && behind > 2);
    }
}

/// S-1.3, S-14.1: what is of another word, another life, or never stored is none.
#[test]
fn a_check_is_of_one_word_in_one_life() {
    let segment = segment();
    let region = segment.region();
    let mut pair = [0; 16];
    region.load(Word::Last.at(), &mut pair);
    let both = |bytes: &[u8; 16]| [0, APART].map(|apart| region.store(Word::Followed.at() + apart, bytes));
    both(&pair);
    assert_eq!(segment.word(Word::Followed), None);
    both(&[0; 16]);
    assert_eq!(segment.word(Word::Followed), None);
    Segment::new(4, Guard::Off, false, true)
        .expect("another life")
        .region()
        .load(Word::Followed.at(), &mut pair);
    both(&pair);
    assert_eq!(segment.word(Word::Followed), None);
    assert_eq!(segment.changed(), [("followed", false)]);
}
