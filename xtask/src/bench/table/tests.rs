//! The table, and its place in the file.

use super::super::device::Counters;
use super::{BEGIN, END, Row, render, replace};

fn row(peer: &'static str, operations: f64) -> Row {
    let device = Counters {
        written: 4096 * 100,
        flushes: 100,
    };
    Row {
        workload: "create",
        peer,
        operations,
        fsyncs: operations,
        bytes: 0.0,
        seconds: 1.0,
        device,
    }
}

#[test]
fn a_row_has_its_ratio_bytes_and_flushes() {
    let text = render(&[row("keepfs", 100.0), row("ext4", 50.0)], 5, 3);
    assert!(
        text.contains("| create | keepfs | 100 op/s | 1.00x | 4.0 | 1.00 |\n"),
        "{text}"
    );
    assert!(
        text.contains("| create | ext4 | 50 op/s | 2.00x | 8.0 | 2.00 |\n"),
        "{text}"
    );
}

#[test]
fn a_table_replaces_the_one_before() {
    let once = replace("# Results\n", "one\n");
    assert_eq!(
        once,
        format!("# Results\n\n## Speed beside others\n\n{BEGIN}\none\n{END}\n")
    );
    let twice = replace(&format!("{once}\nafter\n"), "two\n");
    assert_eq!(
        twice,
        format!("# Results\n\n## Speed beside others\n\n{BEGIN}\ntwo\n{END}\n\nafter\n")
    );
}
