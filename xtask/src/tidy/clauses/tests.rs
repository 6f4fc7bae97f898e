//! A tree with one proved clause, broken in one place at a time.

use super::{Finding, PROTOCOLS, Place, SPEC, Tree, UNPROVED, check, ids};

const CODE: &str = "crates/format/src/inode.rs";
const TEST: &str = "crates/format/src/inode/tests.rs";

fn proved() -> Tree {
    let spec = "# Inodes\n\n**S-4.2** An inode has 256 bytes.\n";
    Tree::default()
        .with(SPEC, spec)
        .with(CODE, "//! Inode (S-4.2).\n")
        .with(TEST, "//! S-4.2.\n")
}

#[test]
fn a_clause_cited_by_code_and_test_is_proved() {
    assert_eq!(check(&proved()), []);
}

#[test]
fn a_clause_without_test_is_found() {
    assert_eq!(
        check(&proved().with(TEST, "//! Nothing.\n")),
        [Finding::ClauseWithoutTest("S-4.2".into())]
    );
}

#[test]
fn a_clause_without_code_is_found() {
    assert_eq!(
        check(&proved().with(CODE, "//! Nothing.\n")),
        [Finding::ClauseWithoutCode("S-4.2".into())]
    );
}

#[test]
fn a_test_inside_a_source_file_is_a_proof() {
    let both = "//! Inode (S-4.2).\n#[cfg(test)]\nmod t {\n    // S-4.2\n}\n";
    assert_eq!(check(&proved().with(TEST, "").with(CODE, both)), []);
}

#[test]
fn a_listed_clause_needs_no_proof() {
    assert_eq!(
        check(&proved().with(TEST, "").with(UNPROVED, "# later\nS-4.2 # soon\n")),
        []
    );
}

#[test]
fn a_listed_clause_with_proof_leaves_the_list() {
    assert_eq!(
        check(&proved().with(UNPROVED, "S-4.2\n")),
        [Finding::ClauseProved("S-4.2".into())]
    );
}

#[test]
fn the_list_knows_only_clauses() {
    assert_eq!(
        check(&proved().with(UNPROVED, "S-9.9\n")),
        [Finding::ClauseListedUnknown("S-9.9".into())]
    );
}

#[test]
fn a_citation_of_no_clause_is_found() {
    let tree = proved().with("crates/fs/src/dir.rs", "//! Directories.\n// as S-9.9 says\n");
    let place = Place::new("crates/fs/src/dir.rs", 2);
    assert_eq!(
        check(&tree),
        [Finding::ClauseUnknown {
            id: "S-9.9".into(),
            place
        }]
    );
}

#[test]
fn an_id_stands_once() {
    let tree = proved().with(SPEC, "**S-4.2** One.\n\n- **S-4.2** Two.\n");
    assert_eq!(check(&tree), [Finding::ClauseTwice("S-4.2".into())]);
}

#[test]
fn a_clause_named_in_a_sentence_is_not_defined_there() {
    let tree = proved().with(SPEC, "**S-4.2** One.\n\nSee **S-4.2** once more.\n");
    assert_eq!(check(&tree), []);
}

#[test]
fn a_rule_of_the_protocols_needs_code_and_test() {
    let rule = "**X-1.1** The heap is no truth (S-4.2).\n";
    let tree = proved().with(PROTOCOLS, rule);
    let without = |code| {
        if code {
            Finding::ClauseWithoutCode
        } else {
            Finding::ClauseWithoutTest
        }
    };
    let missing = [without(false)("X-1.1".into()), without(true)("X-1.1".into())];
    assert_eq!(check(&tree), missing);
    let cited = tree
        .with(CODE, "//! S-4.2, X-1.1.\n")
        .with(TEST, "//! S-4.2 and X-1.1.\n");
    assert_eq!(check(&cited), []);
}

#[test]
fn each_document_has_its_own_clauses() {
    let tree = proved().with(PROTOCOLS, "**S-4.2** Nobody else.\n");
    assert_eq!(check(&tree), []);
    let place = Place::new(SPEC, 3);
    let id = "X-1.1".into();
    let tree = Tree::default().with(SPEC, "# Inodes\n\n**X-1.1** Not here.\n");
    assert_eq!(check(&tree), [Finding::ClauseUnknown { id, place }]);
}

#[test]
fn a_document_cites_what_there_is() {
    let cites = |path| proved().with(path, "As S-9.9 says.\n");
    let place = Place::new("docs/FAULTS.md", 1);
    let id = "S-9.9".into();
    assert_eq!(check(&cites("docs/FAULTS.md")), [Finding::ClauseUnknown { id, place }]);
    assert_eq!(check(&cites("CHANGELOG.md")), [], "it tells what was");
}

#[test]
fn ids_are_whole_words() {
    assert_eq!(
        ids("S-4.2, (S-10.1.3). S-4 XS-1.2 S-1..2 é-1.2 X-3.4 S-5.6.").collect::<Vec<_>>(),
        ["S-4.2", "S-10.1.3", "X-3.4", "S-5.6"]
    );
}
