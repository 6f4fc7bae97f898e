//! A matrix of lines made by hand: what is right, what is wrong, what is silent.

use super::*;
use crate::inject::judge::judge;

const TRUTH: &str = "1\tpcrc\tstray 1-64 B\tright\t100\t104\t9\t00000000\t01020304\n";

fn judged(told: &str, truth: &str) -> Matrix {
    Matrix::of(truth, &judge(told)).expect("lines")
}

#[test]
fn a_verdict_is_right_only_with_the_place_and_the_bytes() {
    let right = "1\t1\t2\t1\t100\t104\t00000000\t01020304\tstray write\n";
    assert!(judged(right, TRUTH).is_good());
    for wrong in [
        right.replace("100\t104", "100\t105"),
        right.replace("01020304", "01020305"),
        right.replace("1\t1\t2\t1", "1\t1\t6\t1"),
        right.replace("1\t1\t2\t1", "1\t1\t1\t1"),
        String::new(),
    ] {
        assert_eq!(judged(&wrong, TRUTH).all.wrong, 1, "{wrong}");
    }
    let unknown = right.replace("1\t1\t2\t1", "1\t1\t11\t1");
    assert!(judged(&unknown, TRUTH).is_good());
}

#[test]
fn wrong_bytes_are_silent_and_a_wrong_repair_if_one_was_told() {
    let truth = TRUTH.replace("right", "wrong");
    let told = "1\t1\t2\t1\t100\t104\t00000000\t01020304\tstray write\n";
    let matrix = judged(told, &truth);
    assert_eq!(
        (matrix.all.wrong, matrix.all.silent, matrix.all.wrong_repairs),
        (0, 1, 1)
    );
    assert!(!matrix.is_good());
    let fenced = judged(&told.replace("1\t1\t2\t1\t", "1\t1\t2\t8\t"), &truth);
    assert_eq!((fenced.all.silent, fenced.all.wrong_repairs), (1, 0));
}

#[test]
fn two_bits_are_a_flip_whoever_changed_them_and_what_a_put_left_may_be_nothing() {
    let two = TRUTH.replace("\t9\t", "\t2\t");
    let flip = "1\t1\t1\t1\t100\t104\t\t\tbit flip\n";
    assert!(judged(flip, &two).is_good());
    assert!(!judged(flip, TRUTH).is_good());
    let under = TRUTH.replace("stray 1-64 B", "under a legal put");
    assert!(judged("", &under).is_good());
    assert!(!judged("", &under.replace("right", "wrong")).is_good());
}

#[test]
fn a_verdict_on_nothing_is_an_error() {
    assert!(Matrix::of("", "7\tflip\tby the code\t0\t1\t0\t\t\n").is_err());
}
