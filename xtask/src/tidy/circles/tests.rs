//! Packages without a circle, with one, and with a list of what is none.

use super::{Finding, Tree, check_with};

fn finding(module: &str, listed: bool) -> Finding {
    Finding::Circle {
        package: "a".into(),
        module: module.into(),
        listed,
    }
}

#[test]
fn who_stands_on_others_is_in_no_circle() {
    let tree = Tree::default()
        .with("crates/a/src/lib.rs", "use crate::top::Top;")
        .with(
            "crates/a/src/top.rs",
            "use crate::{Root, ground::{self, Low}}; // crate::lib",
        )
        .with(
            "crates/a/src/ground.rs",
            "//! Under [`crate::top`].\nconst S: &str = \"crate::top\";",
        )
        .with("crates/a/src/ground/tests.rs", "use crate::top::Top;")
        .with("crates/b/src/ground.rs", "use crate::top::Top;");
    assert_eq!(check_with(&tree, &[]), []);
}

#[test]
fn a_circle_is_found_however_long_it_is() {
    let tree = Tree::default()
        .with("crates/a/src/one.rs", "use crate::{x::{y, three}, two::Two};")
        .with("crates/a/src/two/part.rs", "fn f() -> crate::three::Three {}")
        .with("crates/a/src/three.rs", "use crate::one;")
        .with("crates/a/src/four.rs", "use crate::one;");
    let all = ["one", "three", "two"];
    assert_eq!(check_with(&tree, &[]), all.map(|module| finding(module, false)));
    assert_eq!(check_with(&tree, &[("a", &["one", "two", "three"])]), []);
    assert_eq!(
        check_with(&tree, &[("a", &["one", "two", "three", "four"])]),
        [finding("four", true)]
    );
    assert_eq!(check_with(&tree, &[("a", &["two", "three"])]), [finding("one", false)]);
}
