//! Every source file says in its first line what it is for, and is short enough to be read.

use super::Finding;
use super::tree::{Tree, is_test};

/// Lines a source file outside the tests may have.
const LINES_MAX: usize = 600;

/// Files that may be longer, with their limit. Each row is argued where the file is changed.
const ALLOWANCES: &[(&str, usize)] = &[];

/// Findings for missing heads and for long files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, ALLOWANCES)
}

fn check_with(tree: &Tree, allowances: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.sources() {
        let max = allowances
            .iter()
            .find(|(file, _)| *file == path)
            .map_or(LINES_MAX, |(_, max)| *max);
        let lines = text.lines().count();
        if !text.starts_with("//! ") {
            findings.push(Finding::Head(path.to_owned()));
        }
        if lines > max && !is_test(path) {
            findings.push(Finding::Length {
                file: path.to_owned(),
                lines,
                max,
            });
        }
    }
    let long = |file: &str| tree.text(file).is_some_and(|text| text.lines().count() > LINES_MAX);
    let unused = allowances.iter().filter(|(file, _)| !long(file));
    findings.extend(unused.map(|(file, _)| Finding::AllowanceUnused((*file).to_owned())));
    findings
}

#[cfg(test)]
mod tests;
