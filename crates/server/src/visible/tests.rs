//! What a terminal would obey is seen instead.

use super::{lines, one_line, path};
use std::path::Path;

#[test]
fn what_a_terminal_would_obey_is_escaped() {
    let cases = [
        ("plain text, ünïcode, a\\b", "plain text, ünïcode, a\\b"),
        ("\u{1b}]0;title\u{7}\u{1b}[31mred", "\\e]0;title\\a\\e[31mred"),
        ("a\nstate: ONLINE\r\tb", "a\\nstate: ONLINE\\r\\tb"),
        ("\u{0}\u{8}\u{b}\u{c}\u{7f}", "\\x00\\b\\v\\f\\x7f"),
        // CSI in one character, and a name that reads backwards.
        (
            "\u{9b}31m\u{202e}txt\u{2028}",
            "\\xc2\\x9b31m\\xe2\\x80\\xaetxt\\xe2\\x80\\xa8",
        ),
    ];
    for (text, seen) in cases {
        assert_eq!(one_line(text), seen);
        assert_eq!(one_line(seen), seen, "twice");
    }
    assert_eq!(path(Path::new("/a\u{1b}c")), "$'/a\\ec'");
}

#[test]
fn lines_behind_the_first_are_no_messages() {
    assert_eq!(
        lines("report\n  frame\u{1b}\n12 error keepfs: no"),
        "report\n      frame\\e\n    12 error keepfs: no"
    );
    assert_eq!(lines("one"), "one");
}
