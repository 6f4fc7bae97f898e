//! A tree in which everything named is there, and names of what is not.

use super::{Finding, Place, Tree, check};

const CODE: &str = "crates/store/src/redo.rs";

fn sound() -> Tree {
    Tree::default()
        .with("docs/SPEC.md", "# Format\n\n## 8. The log\n\n## 9. Recovery\n")
        .with("docs/BARS.md", "| P-8 | growth |\n| P-9 | memory |\n")
        .with("README.md", "See [the format](docs/SPEC.md) and docs/man/*.md.\n")
}

fn said(comment: &str) -> Vec<Finding> {
    check(&sound().with(CODE, &format!("//! Redo.\n{comment}\n")))
}

fn nothing(name: &str) -> Vec<Finding> {
    let (place, name) = (Place::new(CODE, 2), name.to_owned());
    vec![Finding::NothingThere { place, name }]
}

#[test]
fn what_is_there_may_be_named() {
    for comment in [
        "// SPEC.md, docs/SPEC.md, `SPEC.md`, (README.md). https://example.org/x.md",
        "// SPEC section 8; (SPEC sections 8 and 9), SPEC 8 to 9, docs/SPEC.md section 9.3",
        "// (BARS P-8, P-9), BARS P-8 to P-9; BARS",
        "let seen = \"pump.md, issue 4, LORE section 1\";",
        "// POSIX 1003.1, WAFL section 7, an issue of 4 KiB",
    ] {
        assert_eq!(said(comment), [], "{comment}");
    }
}

#[test]
fn a_file_that_is_not_there_is_found() {
    assert_eq!(said("// as pump.md says"), nothing("pump.md"));
    assert_eq!(said("let x = 1; // see docs/LORE.md."), nothing("docs/LORE.md"));
}

#[test]
fn a_section_that_is_not_there_is_found() {
    assert_eq!(said("/// (LORE section 2)"), nothing("LORE section 2"));
    assert_eq!(said("/// SPEC sections 8 and 17."), nothing("SPEC section 17"));
    assert_eq!(said("/// SPEC 10 has it"), nothing("SPEC section 10"));
}

#[test]
fn a_bar_that_is_not_there_is_found() {
    assert_eq!(said("/// (BARS P-8, P-77)"), nothing("BARS P-77"));
}

#[test]
fn a_number_of_an_issue_is_found() {
    let found = [Finding::IssueNamed(Place::new(CODE, 2))];
    assert_eq!(said("// issue 2, section 7"), found);
    assert_eq!(said("// Issues 2 and 3"), found);
}

#[test]
fn documents_are_looked_at_but_for_what_was() {
    let named = |file| sound().with(file, "As pump.md says.\n");
    for file in ["docs/FAULTS.md", "docs/decisions/0001-floors.md"] {
        let place = Place::new(file, 1);
        let name = "pump.md".to_owned();
        assert_eq!(check(&named(file)), [Finding::NothingThere { place, name }]);
    }
    assert_eq!(check(&named("CHANGELOG.md")), []);
}

#[test]
fn a_file_is_found_beside_who_names_it() {
    let tree = sound().with(
        "docs/man/keepfs.8.md",
        "[the format](../SPEC.md), [itself](keepfs.8.md)\n",
    );
    assert_eq!(check(&tree), []);
}
