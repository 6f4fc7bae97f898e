//! The writer on an ordinary directory: what it acknowledges can be verified, what is damaged is found.

use std::fs;

use super::{path, verify, write};

#[test]
fn what_was_written_is_verified_and_damage_is_found() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let written = dir.path().join("written");
    for number in 0..120 {
        write(&written, number).expect("a file");
    }
    assert_eq!(verify(&written, 120), Ok(()));
    assert!(verify(&written, 121).is_err());
    fs::write(path(&written, 7), "other").expect("a file");
    assert!(verify(&written, 120).is_err());
}
