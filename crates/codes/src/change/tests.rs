//! Cuts of a change against the byte-by-byte truth.

use super::*;
use crate::testing::{Rng, rounds};

/// A frame that holds the XOR of the change.
fn expected(offset: usize, old: &[u8], new: &[u8]) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    for (at, (old, new)) in old.iter().zip(new).enumerate() {
        frame[offset + at] = old ^ new;
    }
    frame
}

#[test]
fn words_and_columns_hold_every_byte_of_the_change_once() {
    let mut rng = Rng::new(1);
    for round in 0..rounds(3000, 30) {
        let offset = rng.below(FRAME + 1);
        let longest = if round % 10 == 0 { FRAME } else { 40 };
        let len = rng.below(longest + 1).min(FRAME - offset);
        let (old, new) = (rng.bytes(len), rng.bytes(len));
        let truth = expected(offset, &old, &new);
        let mut by_words = [0; FRAME];
        let mut before = None;
        words(offset, &old, &new, |word, xor| {
            assert!(before < Some(word), "ascending");
            before = Some(word);
            by_words[8 * word..][..8].copy_from_slice(&xor.to_le_bytes());
        });
        let mut by_columns = [0; FRAME];
        columns(offset, &old, &new, |column, xor| {
            by_columns[16 * column..][..16].copy_from_slice(&xor.to_le_bytes());
        });
        assert_eq!(by_words, truth, "offset {offset} length {len}");
        assert_eq!(by_columns, truth, "offset {offset} length {len}");
    }
}

#[test]
#[should_panic(expected = "beyond its frame")]
fn a_change_beyond_the_frame_is_refused() {
    words(4095, &[0; 2], &[1; 2], |_, _| {});
}

#[test]
#[should_panic(expected = "differ in length")]
fn unequal_lengths_are_refused() {
    columns(0, &[0; 2], &[1; 3], |_, _| {});
}
