//! Digests are equal exactly for equal multisets, extents cost one item, and one culprit is named (S-15.12).

use super::*;
use crate::testing::{Rng, at_every_level, rounds};
use std::vec::Vec;

fn key() -> Key {
    Key::new(&Rng::new(99).bytes(Key::RANDOM).try_into().unwrap())
}

fn of_items(key: &Key, items: impl IntoIterator<Item = u64>) -> Digest {
    let mut digest = Digest::default();
    for item in items {
        digest.add(key, item);
    }
    digest
}

#[test]
fn an_extent_is_the_sum_of_its_items_at_every_level() {
    at_every_level(|| {
        let key = key();
        let mut rng = Rng::new(1);
        for _ in 0..rounds(200, 3) {
            let start = rng.next() >> rng.below(40);
            let len = 1 + rng.below(rounds(500, 5)) as u64;
            let mut extent = Digest::default();
            extent.add_extent(&key, Extent { start, len });
            assert_eq!(extent, of_items(&key, (0..len).map(|at| start.wrapping_add(at))));
            extent.remove_extent(&key, Extent { start, len });
            assert_eq!(extent, Digest::default());
        }
    });
}

#[test]
fn order_and_batches_do_not_matter() {
    let key = key();
    let mut rng = Rng::new(2);
    let items: Vec<u64> = (0..rounds(500, 20)).map(|_| rng.next() >> 40).collect();
    let forwards = of_items(&key, items.iter().copied());
    let backwards = of_items(&key, items.iter().rev().copied());
    let (left, right) = items.split_at(items.len() / 3);
    let batches = of_items(&key, right.iter().copied()).plus(of_items(&key, left.iter().copied()));
    assert_eq!((forwards, forwards), (backwards, batches));
    assert_eq!(forwards.minus(batches), Digest::default());
}

#[test]
fn errors_that_a_plain_sum_forgives_are_seen() {
    let key = key();
    // Two slips that compensate each other: +3 and -3.
    let (right, wrong) = (of_items(&key, [100, 200]), of_items(&key, [103, 197]));
    assert_eq!((right.count, right.sum), (wrong.count, wrong.sum));
    assert_ne!(right, wrong);
    // An item freed twice and its neighbours once.
    let (right, wrong) = (of_items(&key, [7, 8, 9]), of_items(&key, [8, 8, 8]));
    assert_eq!((right.count, right.sum), (wrong.count, wrong.sum));
    assert_ne!(right, wrong);
    // Freed twice, which XOR would forget.
    assert_ne!(of_items(&key, [5, 5]), Digest::default());
}

#[test]
fn small_differences_never_vanish() {
    let key = key();
    let mut rng = Rng::new(3);
    for _ in 0..rounds(20_000, 20) {
        let mut difference = Digest::default();
        let mut times = std::collections::BTreeMap::new();
        for _ in 0..1 + rng.below(4) {
            let (item, count) = (1000 + rng.below(16) as u64, rng.below(5) as i64 - 2);
            difference.add_times(&key, item, count);
            *times.entry(item).or_insert(0) += count;
        }
        let empty = times.values().all(|count| *count == 0);
        assert_eq!(difference == Digest::default(), empty, "{times:?}");
    }
}

#[test]
fn times_is_that_many() {
    let key = key();
    let mut digest = Digest::default();
    digest.add_times(&key, 12, 3);
    assert_eq!(digest, of_items(&key, [12, 12, 12]));
    digest.add_times(&key, 12, -3);
    assert_eq!(digest, Digest::default());
}

#[test]
fn pairs_are_ordered() {
    let key = key();
    let (mut there, mut back) = (Digest::default(), Digest::default());
    there.add_pair(&key, 1, 2);
    back.add_pair(&key, 2, 1);
    assert_ne!(there, back);
    there.remove_pair(&key, 1, 2);
    assert_eq!(there, Digest::default());
    // A pair is no item.
    let mut pair = Digest::default();
    pair.add_pair(&key, 1, 0);
    assert_ne!(pair, of_items(&key, [1]));
}

#[test]
fn the_one_extent_that_is_missing_or_too_many_is_named() {
    let key = key();
    let mut rng = Rng::new(4);
    for _ in 0..rounds(300, 5) {
        let extent = Extent {
            start: rng.next() >> 24,
            len: 1 + rng.below(5000) as u64,
        };
        let (mut one, mut other) = (of_items(&key, [1, 2, 3]), of_items(&key, [3, 2, 1]));
        one.add_extent(&key, extent);
        assert_eq!(one.minus(other).culprit(&key), Some(extent));
        assert_eq!(other.minus(one).culprit(&key), Some(extent));
        // Two that do not touch are not one.
        other.add(&key, extent.start + extent.len + 1);
        assert_eq!(one.minus(other).culprit(&key), None);
    }
    assert_eq!(Digest::default().culprit(&key), None);
}

#[test]
fn keys_differ() {
    let other = Key::new(&Rng::new(100).bytes(Key::RANDOM).try_into().unwrap());
    assert_ne!(of_items(&key(), [1]), of_items(&other, [1]));
}
