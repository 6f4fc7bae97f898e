//! The summary line and what counts as passed.

use super::Summary;

const LINE: &str = "a ok\n\nSummary: 1 failed, 14 skipped, 383 passed, 0 expected failures, 398 total\n";

#[test]
fn the_summary_is_read() {
    assert_eq!(
        Summary::parse(LINE),
        Some(Summary {
            failed: 1,
            skipped: 14,
            passed: 383,
            total: 398
        })
    );
    assert_eq!(Summary::parse("Summary: nothing"), None);
    assert_eq!(Summary::parse(""), None);
}

#[test]
fn only_a_full_run_without_failure_passes() {
    let summary = |failed, skipped, passed| Summary {
        failed,
        skipped,
        passed,
        total: 398,
    };
    assert!(summary(0, 14, 384).verdict().is_ok());
    assert!(summary(1, 14, 383).verdict().is_err());
    assert!(summary(0, 15, 383).verdict().is_err());
    assert!(summary(0, 14, 383).verdict().is_err(), "a case is missing");
    assert!(
        Summary {
            failed: 0,
            skipped: 0,
            passed: 0,
            total: 0
        }
        .verdict()
        .is_err(),
        "nothing ran"
    );
}
