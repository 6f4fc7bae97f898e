//! Medians and their bounds; every load runs at every level.

use super::*;

#[test]
fn the_median_lies_between_its_bounds() {
    let mut values: Vec<f64> = (0..25).map(|i| f64::from((i * 7) % 25)).collect();
    // Ranks 12.5 ± 4.9.
    assert_eq!(median(&mut values), (12.0, (7.0, 18.0)));
    assert_eq!(median(&mut [3.0]), (3.0, (3.0, 3.0)));
    assert_eq!(median(&mut []), (0.0, (0.0, 0.0)));
}

#[test]
fn every_load_runs_at_every_level() {
    for kind in Kind::ALL {
        let costs = compare(kind, &LEVELS, 1).expect("it runs");
        assert_eq!(costs.len(), LEVELS.len());
        assert!(costs.iter().all(|cost| cost.turn_ns > 0), "{kind:?}: {costs:?}");
        assert_eq!((costs[0].ratio, costs[0].bounds), (1.0, (1.0, 1.0)));
    }
}
