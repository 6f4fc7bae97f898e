//! Heads and lengths, one broken at a time.

use super::{Finding, LINES_MAX, Tree, check, check_with};

fn long(lines: usize) -> String {
    let mut text = "//! A long file.\n".to_owned();
    text.push_str(&"// line\n".repeat(lines - 1));
    text
}

#[test]
fn a_file_with_a_head_is_fine() {
    assert_eq!(check(&Tree::default().with("crates/fs/src/a.rs", &long(LINES_MAX))), []);
}

#[test]
fn a_file_without_a_head_is_found() {
    let tree = Tree::default().with("crates/fs/src/a.rs", "// Not a head.\n");
    assert_eq!(check(&tree), [Finding::Head("crates/fs/src/a.rs".into())]);
}

#[test]
fn a_long_file_is_found() {
    let tree = Tree::default().with("crates/fs/src/a.rs", &long(LINES_MAX + 1));
    let expected = Finding::Length {
        file: "crates/fs/src/a.rs".into(),
        lines: LINES_MAX + 1,
        max: LINES_MAX,
    };
    assert_eq!(check(&tree), [expected]);
}

#[test]
fn a_long_test_is_fine() {
    assert_eq!(
        check(&Tree::default().with("crates/fs/src/a/tests.rs", &long(LINES_MAX + 1))),
        []
    );
}

#[test]
fn an_allowance_has_a_limit_too() {
    let tree = Tree::default().with("a.rs", &long(702));
    assert_eq!(check_with(&tree, &[("a.rs", 702)]), []);
    let expected = Finding::Length {
        file: "a.rs".into(),
        lines: 702,
        max: 701,
    };
    assert_eq!(check_with(&tree, &[("a.rs", 701)]), [expected]);
}

#[test]
fn an_allowance_that_is_not_needed_is_found() {
    let tree = Tree::default().with("a.rs", &long(10));
    assert_eq!(
        check_with(&tree, &[("a.rs", 700)]),
        [Finding::AllowanceUnused("a.rs".into())]
    );
}
