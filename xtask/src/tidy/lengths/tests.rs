//! Clauses of a made-up document, one character too long, and what does not count.

use super::{CHARACTERS_MAX, Finding, SPEC, Tree, check_with};

/// The text of clause S-1.1 with so many characters.
fn clause(characters: usize) -> String {
    let id = "**S-1.1** ";
    format!("{id}{}", "é".repeat(characters - id.len()))
}

fn spec(text: &str) -> Tree {
    Tree::default().with(SPEC, text)
}

fn too_long(characters: usize) -> [Finding; 1] {
    [Finding::ClauseLong {
        id: "S-1.1".into(),
        characters,
        max: CHARACTERS_MAX,
    }]
}

#[test]
fn a_clause_may_have_so_many_characters_and_no_more() {
    assert_eq!(check_with(&spec(&clause(CHARACTERS_MAX)), &[]), []);
    let longer = CHARACTERS_MAX + 1;
    assert_eq!(check_with(&spec(&clause(longer)), &[]), too_long(longer));
}

#[test]
fn further_paragraphs_and_lists_are_of_the_clause() {
    let text = format!("{}\n\n- a\n\nbc\n**S-1.2** Another.\n", clause(CHARACTERS_MAX));
    assert_eq!(check_with(&spec(&text), &[]), too_long(CHARACTERS_MAX + 5));
}

#[test]
fn tables_and_what_stands_behind_a_heading_are_not() {
    let text = format!(
        "{}\n\n| a | b |\n|---|---|\n\n## 2. Next\n\nWords.\n",
        clause(CHARACTERS_MAX)
    );
    assert_eq!(check_with(&spec(&text), &[]), []);
}

#[test]
fn a_listed_clause_may_be_longer_until_it_is_not() {
    let longer = spec(&clause(CHARACTERS_MAX + 1));
    assert_eq!(check_with(&longer, &["S-1.1"]), []);
    let short = [Finding::ClauseNotLong("S-1.1".into())];
    assert_eq!(check_with(&spec(&clause(CHARACTERS_MAX)), &["S-1.1"]), short);
    assert_eq!(check_with(&spec(""), &["S-1.1"]), short, "gone");
}
