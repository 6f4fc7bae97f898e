//! Every place and length in a few words: what is stored there is what is loaded, and nothing beside it.

use super::{load_at, store_at};
use crate::sys::store_pair;
use core::sync::atomic::{AtomicU64, Ordering};

/// Words that are looked at.
const WORDS: usize = 5;

/// P-1: all that begins and ends within the words. An access that is not aligned panics (`debug_assert`).
#[test]
fn bytes_come_out_as_they_went_in_at_any_place() {
    let memory: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
    let at = memory.as_ptr().expose_provenance();
    let plain = || -> Vec<u8> {
        let words = memory.iter().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        words.flatten().collect()
    };
    for from in 0..=WORDS * 8 {
        for to in from..=WORDS * 8 {
            memory.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            let bytes: Vec<u8> = (from..to).map(|i| i as u8).collect();
            store_at(at + from, &bytes);
            let mut right = [0xff; WORDS * 8];
            right[from..to].copy_from_slice(&bytes);
            assert_eq!(plain(), right, "{from}..{to}");
            let mut loaded = vec![0xaa; to - from];
            load_at(at + from, &mut loaded);
            assert_eq!(loaded, bytes, "{from}..{to}");
        }
    }
}

/// S-14.15: the first word stands before the second, at any multiple of 8.
#[test]
fn a_pair_of_words_stands_where_it_was_stored() {
    let memory: [AtomicU64; 4] = [const { AtomicU64::new(u64::MAX) }; 4];
    let at = memory.as_ptr().expose_provenance();
    store_pair(at + 8, [1, 2]);
    assert_eq!(memory.map(AtomicU64::into_inner), [u64::MAX, 1, 2, u64::MAX]);
}
