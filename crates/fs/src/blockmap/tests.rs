//! Tests of the arithmetic of block maps; their behaviour on a store is in the package's tests.

use super::*;
use keepfs_format::blockmap::{FILE_SIZE_MAX, HEIGHT_MAX};

/// S-7.1: a tree of height h covers 254^h pages, and the highest covers every offset.
#[test]
fn reach_grows_by_the_fanout() {
    assert_eq!(reach(1), 254);
    assert_eq!(reach(2), 254 * 254);
    assert!(reach(HEIGHT_MAX) > FILE_SIZE_MAX / 4096);
}

#[test]
fn slots_are_the_digits_of_the_index() {
    let index = 3 + 254 * (7 + 254 * 11);
    assert_eq!(
        [slot(index, 1), slot(index, 2), slot(index, 3), slot(index, 4)],
        [3, 7, 11, 0]
    );
}

#[test]
fn pieces_end_at_nodes() {
    assert_eq!(pieces(250, 10).collect::<Vec<_>>(), [(250, 0, 4), (254, 4, 6)]);
    assert_eq!(pieces(0, 254).collect::<Vec<_>>(), [(0, 0, 254)]);
    assert_eq!(pieces(5, 0).count(), 0);
    assert_eq!(
        pieces(253, 510).map(|(_, _, len)| len).collect::<Vec<_>>(),
        [1, 254, 254, 1]
    );
}

/// S-7.2: exactly one flag in an entry that is no hole.
#[test]
fn entries_of_unknown_state_are_refused() {
    assert!(check(1, &PageEntry::HOLE).is_ok());
    for flags in 0..16 {
        let ok = check(1, &PageEntry::new(9, flags, 0, 0)).is_ok();
        assert_eq!(ok, matches!(flags, 1 | 2 | 4), "flags {flags}");
    }
}
