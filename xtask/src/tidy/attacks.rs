//! docs/ATTACKS.md names what would notice each defect if it came back; what it names is there.

use super::Finding;
use super::finding::Place;
use super::tree::Tree;

/// The table.
const FILE: &str = "docs/ATTACKS.md";
/// Where the stages of `cargo xtask test` stand.
const STAGES: &str = "xtask/src/stages.rs";

/// Findings for tests, files and stages in backquotes that are not there: `path/of/file.rs::test`, `path/of/file`, `stage NAME`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let lines = tree.text(FILE).unwrap_or_default().lines().zip(1..);
    let named = lines.flat_map(|(line, number)| line.split('`').skip(1).step_by(2).map(move |name| (name, number)));
    let missing = named.filter(|(name, _)| !is_there(tree, name));
    let finding = |(name, line): (&str, usize)| Finding::AttackWithoutTest {
        place: Place::new(FILE, line),
        name: name.to_owned(),
    };
    missing.map(finding).collect()
}

fn is_there(tree: &Tree, name: &str) -> bool {
    if let Some((file, test)) = name.split_once(".rs::") {
        let text = tree.text(&format!("{file}.rs")).unwrap_or_default();
        return text
            .split("#[test]")
            .skip(1)
            .any(|rest| first_function(rest) == Some(test));
    }
    if let Some(stage) = name.strip_prefix("stage ") {
        let stages = tree.text(STAGES).unwrap_or_default();
        let rows = stages.split("stage(").skip(1);
        return rows.filter_map(|row| row.split('"').nth(1)).any(|known| known == stage);
    }
    // Of what else stands in backquotes only files of the project can be looked for.
    let is_file = name.contains('/') && !name.starts_with('/') && !name.contains(' ');
    !is_file || tree.text(name).is_some()
}

/// The name of the first function of a text.
fn first_function(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("fn ")?;
    rest.split('(').next()
}

#[cfg(test)]
mod tests;
