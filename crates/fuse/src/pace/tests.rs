//! The mean and its two thresholds.

use super::*;

const US: Duration = Duration::from_micros(1);

fn feed(pace: &Pace, time: Duration, times: usize) {
    (0..times).for_each(|_| pace.took(time, 100));
}

#[test]
fn a_device_is_noticed_and_so_is_its_end() {
    let pace = Pace::default();
    feed(&pace, 5 * US, 100);
    assert!(!pace.is_slow());
    feed(&pace, 100 * US, 100);
    assert!(pace.is_slow());
    feed(&pace, 5 * US, 100);
    assert!(!pace.is_slow());
}

#[test]
fn between_the_thresholds_nothing_changes() {
    let pace = Pace::default();
    feed(&pace, 40 * US, 1000);
    assert!(!pace.is_slow());
    feed(&pace, 200 * US, 100);
    feed(&pace, 40 * US, 1000);
    assert!(pace.is_slow());
}

#[test]
fn one_stall_is_not_a_device() {
    let pace = Pace::default();
    feed(&pace, 5 * US, 100);
    pace.took(Duration::from_secs(3600), 100);
    assert!(!pace.is_slow());
}

#[test]
fn copying_much_is_not_a_device() {
    let pace = Pace::default();
    (0..100).for_each(|_| pace.took(300 * US, 1 << 20));
    assert!(!pace.is_slow());
    (0..100).for_each(|_| pace.took(1000 * US, 1 << 20));
    assert!(pace.is_slow());
}

#[test]
fn a_cpu_that_others_have_is_not_a_device() {
    let pace = Pace::default();
    feed(&pace, 5 * US, 100);
    assert!(!pace.is_watched());
    feed(&pace, 200 * US, 2);
    assert!(pace.is_watched());
    (0..100).for_each(|_| pace.watched(4000 * US, false, 100));
    assert!(!pace.is_slow());
    (0..100).for_each(|_| pace.watched(100 * US, true, 100));
    assert!(pace.is_slow());
    (0..100).for_each(|_| pace.watched(4000 * US, false, 100));
    assert!(!pace.is_slow());
}
