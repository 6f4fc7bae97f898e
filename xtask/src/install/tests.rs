//! What counts as installed.

use super::{need, packages, present};

#[test]
fn programs_and_paths_are_found() {
    assert!(present("sh"));
    assert!(present("/proc"));
    assert!(!present("no-such-program-of-keepfs"));
    assert!(!present("/no/such/path"));
}

#[test]
fn nothing_is_installed_when_nothing_is_missing() {
    assert_eq!(packages(&[&[need("sh", "dash")]]), Ok(()));
}
