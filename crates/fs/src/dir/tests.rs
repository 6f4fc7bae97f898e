//! Tests of the arithmetic of directories; their behaviour on a store is in the package's tests.

use super::list::behind;
use keepfs_format::dir::{name_key, slot_of};

/// S-6.4: leaves of one level, walked by their ends, cover every slot once.
#[test]
fn the_ends_of_leaves_walk_through_all_slots() {
    for depth in 0..=8 {
        let (mut from, mut leaves) = (0, 1);
        while let Some(next) = behind(from, 0, depth) {
            assert_eq!(slot_of(next, 0), slot_of(from, 0) + (256 >> depth));
            (from, leaves) = (next, leaves + 1);
        }
        assert_eq!(leaves, 1 << depth);
    }
}

/// S-6.4: the end of a leaf under a deep index is the next slot there, or of the index above.
#[test]
fn the_end_of_a_deep_leaf_carries_upward() {
    let key = 0x1234_5678_9ABC_DEF0 >> 1;
    let next = behind(key, 2, 8).expect("not the last");
    assert_eq!(slot_of(next, 2), (slot_of(key, 2) + 1) % 256);
    assert_eq!(next << 1 & 0xFF_FFFF_FFFF, 0);
    let last = (0x12FF_FF00_0000_0000_u64) >> 1;
    let next = behind(last, 2, 0).expect("not the last");
    assert_eq!([slot_of(next, 0), slot_of(next, 1), slot_of(next, 2)], [0x13, 0, 0]);
    assert_eq!(behind(u64::MAX >> 1, 3, 8), None);
}

/// S-6.3: keys leave room for the cookies of the dots and fit a signed offset.
#[test]
fn keys_are_never_the_dots() {
    for i in 0..10_000_u32 {
        let key = name_key([i.into(), 7], &i.to_le_bytes());
        assert!((8..1 << 63).contains(&key) && key.is_multiple_of(8));
    }
}
