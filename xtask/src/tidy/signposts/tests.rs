//! A guide that leads somewhere, and signs that do not.

use super::{Finding, Place, Tree, check};

const GUIDE: &str = "ARCHITECTURE.md";

fn led_by(line: &str) -> Vec<Finding> {
    let sync = "//! Sync.\n\nimpl Store {\n    pub fn sync(&self) {}\n    fn seen<T>(f: T) {}\n}\n";
    let tree = Tree::default().with("crates/store/src/sync.rs", sync);
    check(&tree.with(GUIDE, &format!("# The house\n{line}\n")))
}

fn nothing(name: &str) -> Vec<Finding> {
    let (place, name) = (Place::new(GUIDE, 2), name.to_owned());
    vec![Finding::NothingThere { place, name }]
}

#[test]
fn what_is_there_is_no_finding() {
    for line in [
        "| `crates/store/src/sync.rs` | `sync()`, `Store::seen()` |",
        "in `crates/store/src/` and `crates/store`, `lab/*.rs`",
        "`fuse-work`, `transport=dev`, `write(2)`, `/dev/fuse`",
    ] {
        assert_eq!(led_by(line), [], "{line}");
    }
}

#[test]
fn a_file_or_folder_that_is_not_there_is_found() {
    assert_eq!(led_by("`crates/store/src/log.rs`"), nothing("crates/store/src/log.rs"));
    assert_eq!(led_by("`crates/sto`"), nothing("crates/sto"));
}

#[test]
fn a_function_that_is_not_there_is_found() {
    assert_eq!(led_by("`crates/store/src/sync.rs` `syn()`"), nothing("syn()"));
    assert_eq!(led_by("`sync()` of no file"), nothing("sync()"));
}
