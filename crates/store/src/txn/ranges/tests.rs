//! Ranges are merged as a list of bytes is, and what changes them is seen.

use super::Ranges;
use keepfs_format::MetaId;

const ID: MetaId = MetaId(77);

/// Numbers below what is asked for, always the same ones.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

/// Ranges that overlap or touch become one, in any order of coming.
#[test]
fn inserted_ranges_are_those_of_a_list_of_bytes() {
    let mut random = numbers();
    for round in 0..2000 {
        let mut ranges = Ranges::of(ID, 3);
        let mut bytes = [false; 64];
        for step in 0..12 {
            // Half of the rounds go upwards, as decoded structures are stored.
            let from = if round % 2 == 0 {
                step * 5 + random(4)
            } else {
                random(56)
            } as u16;
            let to = from + 1 + random(6) as u16;
            ranges.insert(from, to.min(64));
            bytes[usize::from(from)..usize::from(to.min(64))].fill(true);
            let expected: Vec<(u16, u16)> = runs(&bytes);
            assert_eq!(ranges[..], expected[..]);
            assert!(ranges.are_right(ID, 3));
        }
    }
}

/// Where bytes are set, as ranges.
fn runs(bytes: &[bool]) -> Vec<(u16, u16)> {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for at in (0..bytes.len()).filter(|at| bytes[*at]) {
        match runs.last_mut() {
            Some(last) if usize::from(last.1) == at => last.1 += 1,
            _ => runs.push((at as u16, at as u16 + 1)),
        }
    }
    runs
}

/// Any change of them, one behind which they are merged, and one of the metablock's name, leaves their sum wrong. S-13.16
#[test]
fn changed_ranges_are_seen() {
    let ranges = || {
        let mut ranges = Ranges::of(ID, 3);
        for from in [100, 200, 300] {
            ranges.insert(from, from + 10);
        }
        ranges
    };
    assert!(ranges().are_right(ID, 3));
    assert!(!ranges().are_right(MetaId(78), 3));
    assert!(!ranges().are_right(ID, 4));
    for bit in 0..16 {
        for at in 0..3 {
            let mut one = ranges();
            one.scribble(|list| list[at].1 ^= 1 << bit);
            assert!(!one.are_right(ID, 3));
            one.insert(205, 400);
            assert!(!one.are_right(ID, 3), "range {at}, bit {bit}");
            one.clear();
            assert!(!one.are_right(ID, 3));
        }
        // The same change of two of them.
        let mut two = ranges();
        two.scribble(|list| list[..2].iter_mut().for_each(|range| range.0 ^= 1 << bit));
        assert!(!two.are_right(ID, 3));
    }
    let mut none = ranges();
    none.clear();
    assert!(none.is_empty() && none.are_right(ID, 3));
}
