//! Arrivals come at their rate; every level has its points; Recon's comparisons find what changed.

use super::*;
use keepfs_store::measure::words_found;

#[test]
fn arrivals_have_their_rate_and_are_in_order() {
    let mut arrivals = Arrivals::new(1000.0, 7);
    let times: Vec<f64> = (0..100_000).map(|_| arrivals.next()).collect();
    assert!(times.is_sorted());
    let end = times.last().copied().unwrap_or_default();
    assert!((98.0..102.0).contains(&end), "100,000 arrivals take {end} s");
}

#[test]
fn what_waits_counts() {
    let mut latencies: Vec<f64> = (1..=100).map(f64::from).collect();
    let point = point(&mut latencies, Duration::from_secs(2));
    assert_eq!((point.mean_us, point.p99_us, point.per_second), (50.5, 100.0, 50.0));
}

#[test]
fn every_level_has_points_and_recon_finds_changes() {
    let before = words_found();
    let mut told = Vec::new();
    tell(2, Duration::from_millis(2), |one| told.push(one)).expect("it runs");
    let levels = Level::of_wafl();
    for level in levels {
        let of = |workload: &str| {
            told.iter()
                .any(|one| one.peer == level.name && one.workload == workload)
        };
        assert!(of("OLTP, saturated") && of("OLTP at 10 %"), "{}", level.name);
        assert!(of("OLTP, saturated, beside off"), "{}", level.name);
    }
    let beside = told
        .iter()
        .filter(|one| one.workload.ends_with("beside off") && one.peer == "off");
    assert_eq!(beside.map(|one| one.value).collect::<Vec<_>>(), [100.0]);
    assert!(words_found() > before, "copies were compared");
}
