//! A small run of everything tells a row for each operation and thread count.

use super::{Medium, ops, varmail};
use std::time::Duration;

#[test]
fn every_operation_has_a_row() {
    let wishes = ops::Wishes {
        medium: Medium::Ram,
        arena_mib: 16,
        files: 200,
    };
    for threads in [1, 2] {
        let rows = ops::run(&wishes, threads).expect("a run");
        let told: Vec<&str> = rows.iter().map(|row| row.operation).collect();
        let asked = [
            "create",
            "lookup",
            "append 1 KiB",
            "rename",
            "unlink",
            "read 4 KiB",
            "write 4 KiB",
        ];
        assert_eq!(told, asked);
        assert!(
            rows.iter()
                .all(|row| row.count == threads * 200 && row.median_ns <= row.p99_ns)
        );
    }
}

#[test]
fn varmail_syncs() {
    let done = varmail::run(Medium::Ram, 16, Duration::from_millis(100)).expect("a run");
    assert!(
        done.fsyncs > 0 && done.flushes > 0 && done.bytes_written > 0,
        "{done:?}"
    );
    assert_eq!(done.operations * 2, done.fsyncs * 13);
}
