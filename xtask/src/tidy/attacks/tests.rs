//! A table whose names are there, and each kind of name that is not.

use super::{FILE, Finding, Place, STAGES, Tree, check};

fn with(line: &str) -> Vec<Finding> {
    let test = "//! Tests.\n\nfn helper() {}\n\n#[test]\n#[ignore]\nfn it_holds() {}\n";
    let tree = Tree::default()
        .with("crates/a/tests/all.rs", test)
        .with("lab/bugs/one.txt", "seed")
        .with(STAGES, "stage(\"crash\", 20, x),\nstage(\n\"model\",\n")
        .with(FILE, &format!("# Attacks\n\n{line}\n"));
    check(&tree)
}

#[test]
fn what_is_there_may_be_named() {
    let line = "| a | `crates/a/tests/all.rs::it_holds`, `stage crash`, `stage model`, `lab/bugs/one.txt`, `-o ro`, `/run/x` |";
    assert_eq!(with(line), []);
    assert_eq!(check(&Tree::default()), []);
}

#[test]
fn what_is_not_there_is_found() {
    for name in [
        "crates/a/tests/all.rs::it_held",
        "crates/a/tests/all.rs::helper",
        "crates/b/tests/all.rs::it_holds",
        "stage cras",
        "lab/bugs/two.txt",
    ] {
        let place = Place::new(FILE, 3);
        let name = name.to_owned();
        assert_eq!(
            with(&format!("| a | `{name}` |")),
            [Finding::AttackWithoutTest { place, name }]
        );
    }
}
