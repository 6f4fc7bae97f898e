//! Every way and every part has a figure.

use super::*;

#[test]
fn every_way_is_told() {
    let mut told = Vec::new();
    compare(&REGIONS[..1], Duration::from_millis(1), |one| told.push(one)).expect("it runs");
    assert_eq!(told.len(), WAYS.len());
    assert!(told.iter().all(|one| one.value > 0.0), "{told:?}");
    let ns = |peer: &str| told.iter().find(|one| one.peer == peer).map_or(0.0, |one| one.value);
    assert!(ns("ALL 64") > ns("NOTHING"), "two system calls cost more than none");
}

#[test]
fn an_update_has_all_its_parts() {
    let mut told = Vec::new();
    breakdown(40, |one| told.push(one.peer)).expect("it runs");
    for part in ["undo", "parity", "dirty", "copy", "digest"] {
        assert!(told.iter().any(|one| one.starts_with(part)), "{part}");
    }
}
