//! Every ban catches its word where it is banned, and only there.

use super::{BANS, Finding, Place, Tree, Where, check};

const SOURCE: &str = "crates/fs/src/a.rs";
const TEST: &str = "crates/fs/src/a/tests.rs";

#[test]
fn every_banned_word_is_found() {
    for ban in BANS {
        let path = if ban.scope == Where::TestCode { TEST } else { SOURCE };
        let tree = Tree::default().with(path, &format!("//! Head.\n{}(1);\n", ban.word));
        let expected = Finding::Banned {
            place: Place::new(path, 2),
            word: ban.word,
            instead: ban.instead,
        };
        assert_eq!(check(&tree), [expected]);
        assert!(!ban.instead.is_empty());
    }
}

#[test]
fn a_word_banned_in_code_may_be_spoken_of() {
    assert_eq!(
        check(&Tree::default().with(SOURCE, "// no todo!() here\nconst S: &str = \"dbg!\";\n")),
        []
    );
}

#[test]
fn a_word_banned_in_tests_may_stand_in_code() {
    assert_eq!(check(&Tree::default().with(SOURCE, "thread::sleep(pause);\n")), []);
}

#[test]
fn documents_name_no_machine() {
    let word = concat!("/wo", "rk");
    let tree = Tree::default().with("README.md", &format!("Look into {word}/x.\n"));
    let found = check(&tree);
    assert!(
        matches!(found.as_slice(), [Finding::Banned { word: found, .. }] if *found == word),
        "{found:?}"
    );
    assert_eq!(check(&Tree::default().with("README.md", "docs/workflow\n")), []);
}

#[test]
fn a_nameless_module_is_found() {
    let tree = Tree::default().with("crates/fs/src/util.rs", "//! Things.\n");
    assert_eq!(
        check(&tree),
        [Finding::ModuleName {
            file: "crates/fs/src/util.rs".into(),
            name: "util"
        }]
    );
    let tree = Tree::default().with("crates/common/src/lib.rs", "//! Things.\n");
    assert_eq!(
        check(&tree),
        [Finding::ModuleName {
            file: "crates/common/src/lib.rs".into(),
            name: "common"
        }]
    );
}
