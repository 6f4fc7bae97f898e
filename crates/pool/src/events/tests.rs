//! Verdicts on bytes of which the right ones are known (S-15.15).

use super::*;
use core::array;

fn page() -> [u8; PAGE] {
    array::from_fn(|at| (at * 7 + at / 256) as u8)
}

/// What is said of these bytes written over a page.
fn seen(changes: &[(usize, &[u8])]) -> Seen {
    let (right, mut found) = (page(), page());
    for (at, bytes) in changes {
        found[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    Seen::between(&right, &found, 0)
}

/// Different bits, one in each of these bytes.
fn flipped(places: &[usize]) -> Seen {
    let right = page();
    let bytes: Vec<[u8; 1]> = places.iter().map(|at| [right[*at] ^ 1 << (at % 8)]).collect();
    let changes: Vec<(usize, &[u8])> = places.iter().zip(&bytes).map(|(at, byte)| (*at, &byte[..])).collect();
    seen(&changes)
}

/// S-15.15: bits that lie apart are flips, up to eight of them; near each other they may be a write's.
#[test]
fn some_bits_far_apart_are_flips() {
    let bits = |places: &[usize]| Seen::Flips(places.iter().map(|at| (*at, (at % 8) as u8)).collect());
    for places in [&[9][..], &[9, 10], &[0, 900, 4000], &[1, 3, 5, 7, 9, 11, 13, 2000]] {
        assert_eq!(flipped(places), bits(places));
    }
    for places in [&[100, 110, 120][..], &[100, 101, 900]] {
        assert_eq!(flipped(places), Seen::Unknown);
    }
    for places in [&[100, 101, 103][..], &[0, 10, 20, 30, 40, 50, 60, 70, 80]] {
        assert!(matches!(flipped(places), Seen::StrayWrite { .. }), "{places:?}");
    }
}

/// Bits of neighbours are a write's; a fill that meets few other values is a write.
#[test]
fn writes_are_no_flips() {
    let right = page();
    assert!(matches!(
        seen(&[(50, &[right[50] ^ 7, right[51] ^ 1])]),
        Seen::StrayWrite { offset: 50, .. }
    ));
    let mut sparse = [0; PAGE];
    for at in [100, 300, 500, 700] {
        sparse[at] = 4;
    }
    let zeroed = Seen::between(&sparse, &[0; PAGE], 0);
    let Seen::StrayWrite { offset, new, .. } = zeroed else {
        panic!("{zeroed:?}");
    };
    assert_eq!((offset, new.len()), (100, 601));
}
