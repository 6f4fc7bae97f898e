//! Samples are read and kept as they were counted, and the middle one counts.

use super::*;

fn sample(peer: &str, value: f64) -> Sample {
    Sample::new("create", peer, value, "op/s")
}

#[test]
fn a_line_of_the_workload_becomes_a_sample() {
    let done = json!({"operations": 600, "fsyncs": 300, "bytes": 3 << 20, "seconds": 2.0, "p50_us": 7.5});
    let sample = Sample::of("create", "ext4", &done);
    assert_eq!((sample.value, sample.unit.as_str()), (300.0, "op/s"));
    assert_eq!(sample.get("p50_us"), Some(7.5));
    assert_eq!(sample.each("bytes"), Some(f64::from(3 << 20) / 600.0));
    assert_eq!(sample.each_fsync("operations"), Some(2.0));
    let read = Sample::of("read", "ext4", &done);
    assert_eq!((read.value, read.unit.as_str()), (1.5, "MiB/s"));
    let job = json!({"operations": 1, "seconds": 2.0, "whole": true});
    let job = Sample::of("cp", "ext4", &job);
    assert_eq!((job.value, job.unit.as_str()), (2.0, "s"));
    assert_eq!(Sample::parse(&sample.json()), Some(sample));
    assert_eq!(Sample::parse(&json!({"workload": 1})), None);
}

#[test]
fn the_median_of_the_rounds_counts_and_the_spread_is_told() {
    let samples = [3.0, 1.0, 2.0].map(|value| sample("ext4", value));
    let rounds = rounds(&samples);
    assert_eq!(rounds.len(), 1);
    assert_eq!((rounds[0].median.value, rounds[0].min, rounds[0].max), (2.0, 1.0, 3.0));
    assert_eq!(rounds[0].count, 3);
}

#[test]
fn workloads_stay_together_although_peers_take_turns() {
    let mut samples = Vec::new();
    for peer in ["a", "b"] {
        for workload in ["x", "y"] {
            samples.push(Sample::new(workload, peer, 1.0, "s"));
        }
    }
    let order: Vec<(String, String)> = rounds(&samples)
        .iter()
        .map(|r| (r.median.workload.clone(), r.median.peer.clone()))
        .collect();
    let expected = [("x", "a"), ("x", "b"), ("y", "a"), ("y", "b")];
    assert_eq!(order, expected.map(|(w, p)| (w.to_owned(), p.to_owned())));
}
