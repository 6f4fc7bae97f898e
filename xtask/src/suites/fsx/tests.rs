//! The configuration is the bar: all 14 operations.

use super::CONFIG;

#[test]
fn every_operation_has_a_weight() {
    let (_, weights) = CONFIG.split_once("[weights]\n").expect("a table of weights");
    let weights: Vec<u32> = weights
        .lines()
        .map(|line| line.rsplit(' ').next().unwrap_or("0").parse().unwrap_or(0))
        .collect();
    assert_eq!(weights.len(), 14);
    assert!(weights.iter().all(|weight| *weight > 0));
}
