//! The quick form of the program `inject`: faults of all classes, judged blind. One test: a fault looks for the guarded
//! memory that was mapped last in this process.

use keepfs_lab::inject::matrix::Matrix;
use keepfs_lab::inject::{judge, run};

/// BARS R-5; S-15.15, S-17.1.
#[test]
fn no_verdict_is_wrong_and_no_damage_silent() {
    let lines = run(600, 11).expect("faults go in");
    let matrix = Matrix::of(&lines.truth, &judge::judge(&lines.told)).expect("lines");
    assert!(matrix.is_good(), "{:#?}", matrix.complaints);
    assert_eq!((matrix.all.count, matrix.codes.len()), (600, 5));
    assert!(matrix.classes.len() >= 20, "{:?}", matrix.classes.keys());
    let known = matrix.all.count - matrix.all.verdicts.get("unknown").copied().unwrap_or(0);
    assert!(known * 10 >= matrix.all.count * 8, "{:?}", matrix.all.verdicts);
}
