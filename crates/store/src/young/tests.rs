//! A verification counts for its time and not longer.

use super::{Clock, Tick, Verified};
use std::time::Duration;

#[test]
fn a_verification_grows_old() {
    let clock = Clock::new(Duration::from_millis(100));
    let verified = Verified::default();
    assert!(!verified.is_young(&clock, Tick(0)), "it never was");
    verified.set(Tick(50));
    assert!(verified.is_young(&clock, Tick(50)) && verified.is_young(&clock, Tick(149)));
    assert!(!verified.is_young(&clock, Tick(150)));
    verified.clear();
    assert!(!verified.is_young(&clock, Tick(51)));
}

#[test]
fn without_time_nothing_is_young() {
    let clock = Clock::new(Duration::ZERO);
    let verified = Verified::default();
    verified.set(Tick(5));
    assert!(!verified.is_young(&clock, Tick(5)));
}

#[test]
fn what_is_forgotten_is_not_young() {
    let clock = Clock::new(Duration::from_millis(100));
    let verified = Verified::default();
    verified.set(Tick(50));
    clock.forget(Tick(50));
    assert!(!verified.is_young(&clock, Tick(50)) && !verified.is_young(&clock, Tick(51)));
    verified.set(Tick(51));
    assert!(verified.is_young(&clock, Tick(52)));
    clock.forget(Tick(40));
    assert!(verified.is_young(&clock, Tick(52)));
}
