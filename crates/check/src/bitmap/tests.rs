//! Sets of numbers against a plain ordered set.

use super::*;
use std::collections::BTreeSet;

#[test]
fn runs_across_bytes_and_blocks() {
    for first in [0, 1, 7, 8, BITS - 9, BITS - 1, BITS] {
        for count in [0, 1, 6, 8, 9, 17, BITS + 3] {
            let mut set = Set::default();
            set.add_run(first, count);
            assert!(set.iter().eq(first..first + count), "{first}+{count}");
            assert!(!set.has(first + count) && (count == 0 || set.has(first)));
        }
    }
}

#[test]
fn like_an_ordered_set() {
    let (mut set, mut model) = (Set::default(), BTreeSet::new());
    for step in 0..5000u64 {
        let number = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 70_000;
        if step % 3 == 0 {
            set.remove(number);
            model.remove(&number);
        } else {
            assert_eq!(set.add(number), model.insert(number));
        }
    }
    assert!(set.iter().eq(model.iter().copied()));
    let stored: u64 = set.blocks.values().map(|bits| count(&bits[..])).sum();
    assert_eq!(stored, model.len() as u64);
}

#[test]
fn difference() {
    let (mut one, mut other) = (Set::default(), Set::default());
    one.add_run(5, 10);
    other.add_run(8, 3);
    let left = minus(&one.bits(0)[..], &other.bits(0)[..]);
    assert!(ones(&left).eq([5, 6, 7, 11, 12, 13, 14]));
    assert_eq!(other.bits(9), &CLEAR);
}
