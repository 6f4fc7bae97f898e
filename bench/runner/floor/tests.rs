//! Floors are added up of the rows.

use super::super::sample::{Sample, rounds};
use super::*;

fn sample(peer: &str, value: f64, more: &[(&str, f64)]) -> Sample {
    let mut sample = Sample::new("create", peer, value, "op/s");
    sample.more = more.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    sample
}

const MODELLED: [(&str, f64); 6] = [
    ("threads", 1.0),
    ("operations", 100.0),
    ("fsyncs", 100.0),
    ("bytes", 100.0 * 2e5),
    ("model_flush_us", 1000.0),
    ("model_write_bytes_s", 2e8),
];

#[test]
fn transport_and_device_add_up() {
    let samples = [
        sample("keepfs", 300.0, &MODELLED),
        sample("ext2", 250.0, &[]),
        sample("memory-dev", 500.0, &[]),
    ];
    let rows = rounds(&samples);
    let rows: Vec<_> = rows.iter().collect();
    // 2 ms of transport, 1 ms of flush, 1 ms of bytes.
    let most = best(&rows, "keepfs", "ext2").expect("a floor");
    assert!((most - 250.0).abs() < 0.01, "{most}");
    assert_eq!(
        best(&rows, "keepfs", "memory-dev"),
        None,
        "the transport is no floor for itself"
    );
    assert_eq!(best(&rows, "keepfs-uring", "ext2"), None, "no row of its transport");
    let transport = best(&rows[1..], "keepfs", "ext2").expect("a floor");
    assert!((transport - 500.0).abs() < 0.01, "{transport}");
}

#[test]
fn threads_share_flushes() {
    let mut many = MODELLED;
    many[0] = ("threads", 16.0);
    let samples = [sample("keepfs", 300.0, &many), sample("ext2", 250.0, &[])];
    let rows = rounds(&samples);
    assert_eq!(best(&rows.iter().collect::<Vec<_>>(), "keepfs", "ext2"), None);
}

#[test]
fn two_threads_have_no_more_than_two_programs() {
    let sample = |peer: &str, per_second: f64| sample(peer, 1.0, &[("per_second", per_second)]);
    let samples = [
        sample("in memory", 100.0),
        sample("in memory, 2 programs", 150.0),
        sample("keepfs", 80.0),
        sample("keepfs, 2 threads", 100.0),
    ];
    let rows = rounds(&samples);
    let rows: Vec<_> = rows.iter().collect();
    assert_eq!(two_programs(&rows, "keepfs, 2 threads", "keepfs"), Some(1.5));
    assert_eq!(two_programs(&rows, "keepfs, 2 threads", "ext4"), None);
    assert_eq!(two_programs(&rows[2..], "keepfs, 2 threads", "keepfs"), None);
}
