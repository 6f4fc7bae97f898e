//! Tests of the pools that scarcity is sought on.

use super::*;
use crate::crash::setting::LabClock;
use keepfs_store::Purpose;
use keepfs_testkit::ops::Session;
use keepfs_testkit::sim::SimDevice;
use std::collections::HashSet;
use std::sync::Arc;

/// Pages of one file.
const FILE: u64 = BIG / PAGE;

#[test]
fn every_fullness_is_what_it_says_and_has_the_files_that_are_changed() {
    for (log_pages, copies) in [(32, 1), (32, 2), (64, 1), (64, 2)] {
        for free in NEARLY_FULL.into_iter().chain([HALF_FULL, MOSTLY_FREE]) {
            let setting = Setting {
                pages: PAGES,
                log_pages,
                copies,
                free,
                ..Setting::default()
            };
            let device = SimDevice::over(setting.fresh().expect("a pool"));
            let volume = setting.open(Arc::new(device), &LabClock::default()).expect("open");
            let left = volume.store().figures().available(Purpose::New);
            assert!(
                left <= u64::from(free) && left + 3 * FILE > u64::from(free),
                "{left} of {free} in {setting}"
            );
            let last = format!("stat path=big{}", FILES - 1).parse().expect("operation");
            assert!(!Session::new(&*volume).run(&last).is_err(), "{setting}");
        }
    }
}

#[test]
fn each_fullness_is_chosen() {
    let chosen = (0..200).map(|number| workload(&mut Rng::new(number)).1.free);
    assert_eq!(chosen.collect::<HashSet<_>>().len(), NEARLY_FULL.len() + 2);
}
