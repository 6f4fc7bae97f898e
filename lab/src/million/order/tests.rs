//! Tests of the shuffled order.

use super::Shuffled;

#[test]
fn every_number_comes_once() {
    for n in [1, 2, 3, 1000, 4096, 10_001] {
        let mut all: Vec<u64> = Shuffled::new(n).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..n), "{n}");
    }
}
