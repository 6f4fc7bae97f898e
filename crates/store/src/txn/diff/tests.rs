//! The ranges are those that byte by byte comparison gives.

use super::{GAP, differences};

/// The plain way.
fn plain(old: &[u8], new: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in (0..old.len()).filter(|i| old[*i] != new[*i]) {
        match ranges.last_mut() {
            Some((_, end)) if at < *end + GAP => *end = at + 1,
            _ => ranges.push((at, at + 1)),
        }
    }
    ranges
}

/// Numbers below what is asked for, always the same ones.
fn numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

#[test]
fn ranges_are_those_of_a_plain_comparison() {
    let mut random = numbers();
    for _ in 0..20_000 {
        let old = vec![1u8; random(70) as usize];
        let mut new = old.clone();
        for _ in 0..random(12) {
            let from = random(new.len() as u64 + 1) as usize;
            let to = (from + random(12) as usize).min(new.len());
            new[from..to].fill(random(3) as u8);
        }
        let found: Vec<_> = differences(&old, &new)
            .iter()
            .map(|range| (range.start, range.end))
            .collect();
        assert_eq!(found, plain(&old, &new), "{new:?}");
    }
}
