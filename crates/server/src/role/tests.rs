//! Which words are those of a role.

use super::{BEGINNINGS, Words, can_serve, is_of_role};
use clap::CommandFactory;
use std::ffi::OsString;

fn words(words: &[&str]) -> Vec<OsString> {
    ["keepfs"].iter().chain(words).map(OsString::from).collect()
}

#[test]
fn only_what_begins_as_a_role_is_one() {
    for begin in BEGINNINGS {
        assert!(is_of_role(&words(&[begin[0], begin[1], "more"])), "{begin:?}");
        assert!(!is_of_role(&words(&[begin[0]])), "{begin:?}");
        assert!(!is_of_role(&words(&[begin[0], "/pool", begin[1]])), "{begin:?}");
    }
    assert!(!is_of_role(&words(&["mount", "--kept"])));
    assert!(!is_of_role(&words(&[])));
}

/// It would start keepers and servers that know nothing of it, and mount once more.
#[test]
fn a_program_that_cannot_be_a_server_is_told_what_it_lacks() {
    let said = can_serve().unwrap_err().to_string();
    assert!(said.contains("main must call keepfs::serve_if_asked() first"), "{said}");
}

/// A keeper of the first release starts servers, and keepers after it, with these words. S-16.13
#[test]
fn the_words_of_keepers_before_this_one_are_understood() {
    let server = [
        "serve",
        "--kept",
        "/pool",
        "/dir",
        "-o",
        "ro",
        "-o",
        "commit=1",
        "--sloppy",
        "--foreground",
    ];
    let spare = ["keep", "--adopt", "7", "/pool", "/dir", "-o", "ro", "--sloppy"];
    for line in [&server[..], &spare] {
        let line = words(line);
        assert!(is_of_role(&line), "{line:?}");
        Words::command().try_get_matches_from(&line).expect("words of a role");
    }
}
