//! What is there is found, and what cannot be installed says why.

use super::*;

#[test]
fn a_command_that_fails_says_how() {
    assert_eq!(within(60, &["true"]), Ok(()));
    assert_eq!(within(60, &["false", "x"]), Err("`false x` failed".into()));
    let none = within(60, &["keepfs-no-such-program"]);
    assert!(none.is_err_and(|why| why.ends_with("there is no such program")));
}

#[test]
fn parts_are_found_by_the_begin_of_their_lines() {
    let listed = "stable-x86_64-unknown-linux-gnu (default)\nnightly-x86_64-unknown-linux-gnu\n";
    assert!(has_line(listed, "nightly-"));
    assert!(!has_line(listed, "x86_64"));
    assert!(!has_line("", "miri"));
}
