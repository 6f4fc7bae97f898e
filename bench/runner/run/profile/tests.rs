//! Counts of samples become microseconds of an operation.

use super::*;

#[test]
fn parts_and_what_is_left_add_up_to_the_time() {
    let done = serde_json::json!({"operations": 1000, "seconds": 0.1});
    let parts = [(Part::Kernel, 40), (Part::Fs, 100)].into();
    let sample = sample("stat", "keepfs", &done, &parts).expect("a sample");
    assert_eq!((sample.value.round(), sample.unit.as_str()), (100.0, "us"));
    assert_eq!((sample.get("kernel_us"), sample.get("fs_us")), (Some(20.0), Some(50.0)));
    assert_eq!(sample.get("idle_us").map(f64::round), Some(30.0));
}

#[test]
fn a_workload_without_operations_or_samples_is_none() {
    let done = serde_json::json!({"operations": 0, "seconds": 0.1});
    assert!(sample("stat", "keepfs", &done, &[(Part::Fs, 1)].into()).is_err());
    let done = serde_json::json!({"operations": 5, "seconds": 0.1});
    assert!(sample("stat", "keepfs", &done, &BTreeMap::new()).is_err());
}
