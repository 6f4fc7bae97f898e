//! A folder in order, and each way in which it is not.

use super::{Breach, DIR, Finding, INDEX, LINES_MAX, PAGES_MAX, Place, Tree, check};

const PAGE: &str = "# 0001 Doors: are shut\n\nStatus: accepted\n\n## Decision\n\nSee decision 0003.\n";
const OTHER: &str = "# 0003 Windows\n\nStatus: accepted\n";
const ROWS: &str = "# Decisions\n\n- [0001](0001-doors.md) Doors: are shut\n- [0003](0003-windows.md) Windows\n";

fn tree() -> Tree {
    Tree::default()
        .with("docs/decisions/0001-doors.md", PAGE)
        .with("docs/decisions/0003-windows.md", OTHER)
        .with(INDEX, ROWS)
}

fn finding(file: &str, line: usize, breach: Breach) -> Finding {
    let place = Place::new(file, line);
    Finding::Decision { place, breach }
}

#[test]
fn what_is_there_may_be_cited() {
    let source = "//! Shut (decision 0001), of glass (SPEC S-1.1, decisions 0001, 0003); why stands in\n//! `docs/decisions/0001-doors.md`, \
         decisions 0001\n//! and 0003. A decision of 4096 bytes, and decision 12 of 0999.\n";
    assert_eq!(check(&tree().with("crates/a/src/lib.rs", source)), []);
    assert_eq!(check(&Tree::default()), []);
}

#[test]
fn what_is_not_there_is_found_wherever_it_is_cited() {
    for (text, line, cited) in [
        ("//! Shut (decision 0002).", 1, "0002"),
        ("\n// Decisions 0001 and 0004: shut.", 2, "0004"),
        ("//! Shut (S-1.1,\n//! decision\n//! 0005).", 3, "0005"),
        ("see docs/decisions/0006", 1, "0006"),
        ("see docs/decisions/0007-gates.md", 1, "0007"),
    ] {
        for file in ["crates/a/src/lib.rs", "docs/NOTES.md"] {
            let unknown = Breach::Unknown(cited.to_owned());
            assert_eq!(check(&tree().with(file, text)), [finding(file, line, unknown)]);
        }
    }
    let made_up = tree().with("docs/results/run.json", "decision 0002");
    assert_eq!(check(&made_up), []);
}

#[test]
fn who_cites_what_was_replaced_is_told() {
    let page = "# 0003 Windows\n\nStatus: replaced by 0001\n";
    let replaced = tree().with("docs/decisions/0003-windows.md", page);
    assert_eq!(check(&replaced), []);
    let file = "lab/src/lib.rs";
    let breach = Breach::Replaced("0003".to_owned());
    assert_eq!(
        check(&replaced.with(file, "// decision 0003")),
        [finding(file, 1, breach)]
    );
}

#[test]
fn a_page_has_its_number_a_status_and_few_lines() {
    let path = "docs/decisions/0003-windows.md";
    let unlisted = |findings: Vec<Finding>| {
        let told = |finding: &Finding| matches!(finding, Finding::Decision { place, .. } if place.file != INDEX);
        findings.into_iter().filter(told).collect::<Vec<_>>()
    };
    for (text, line, breach) in [
        ("# 0004 Windows\n\nStatus: accepted\n", 1, Breach::Title),
        ("# Windows\n\nStatus: accepted\n", 1, Breach::Title),
        ("# 0003 Windows\n\n## Decision\n", 3, Breach::Status),
        ("# 0003 Windows\n\nStatus: replaced by 0009\n", 3, Breach::Status),
        ("# 0003 Windows\n\nStatus: replaced by 0003\n", 3, Breach::Status),
    ] {
        assert_eq!(unlisted(check(&tree().with(path, text))), [finding(path, line, breach)]);
    }
    let long = format!("{OTHER}{}", "why\n".repeat(LINES_MAX - 2));
    let breach = Breach::Long(LINES_MAX + 1);
    assert_eq!(check(&tree().with(path, &long)), [finding(path, LINES_MAX + 1, breach)]);
    let twice = tree().with("docs/decisions/0003-a.md", OTHER);
    let title = |file: &str| finding(file, 1, Breach::Title);
    assert_eq!(
        unlisted(check(&twice)),
        [title("docs/decisions/0003-a.md"), title(path)]
    );
    let nameless = tree().with("docs/decisions/walls.md", "# Walls\n\nStatus: accepted\n");
    assert_eq!(check(&nameless), [finding("docs/decisions/walls.md", 1, Breach::Title)]);
}

#[test]
fn the_list_has_each_page_and_nothing_else() {
    let row = "- [0003](0003-windows.md) Windows\n";
    let without = ROWS.replace(row, "");
    let breach = Breach::Unlisted(row.trim_end().to_owned());
    assert_eq!(check(&tree().with(INDEX, &without)), [finding(INDEX, 1, breach)]);
    for more in ["- [0004](0004-gates.md) Gates\n", row] {
        let with = format!("{ROWS}{more}");
        assert_eq!(check(&tree().with(INDEX, &with)), [finding(INDEX, 5, Breach::Listed)]);
    }
}

#[test]
fn pages_are_few() {
    let mut tree = Tree::default();
    let mut rows = String::new();
    for number in 1..=PAGES_MAX + 1 {
        let text = format!("# {number:04} A\n\nStatus: accepted\n");
        tree = tree.with(&format!("{DIR}{number:04}-a.md"), &text);
        rows += &format!("- [{number:04}]({number:04}-a.md) A\n");
    }
    let many = Breach::Many(PAGES_MAX + 1);
    assert_eq!(check(&tree.with(INDEX, &rows)), [finding(INDEX, 1, many)]);
}
