//! Documents that lead into the code name files and functions that are there.
//!
//! In backquotes, a path is a file or a folder of the project; `name()` or `Type::name()` is a function of a file that is
//! named in the same line.

use super::Finding;
use super::finding::Place;
use super::tree::Tree;

/// Documents that lead into the code.
const GUIDES: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/DESIGN.md",
    "docs/PROTOCOLS.md",
];
/// Folders in which paths begin.
const FOLDERS: &[&str] = &["bench/", "crates/", "docs/", "lab/", "testkit/", "xtask/"];

/// Findings for files and functions that are not there.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for guide in GUIDES {
        for (line, number) in tree.text(guide).unwrap_or_default().lines().zip(1..) {
            let names: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
            let missing = names.iter().filter(|name| !is_there(tree, name, &names));
            findings.extend(missing.map(|name| Finding::NothingThere {
                place: Place::new(guide, number),
                name: (*name).to_owned(),
            }));
        }
    }
    findings
}

/// Whether what stands in backquotes is there; `line`: what else does in the line.
fn is_there(tree: &Tree, name: &str, line: &[&str]) -> bool {
    if let Some(function) = name.strip_suffix("()") {
        let function = function.rsplit("::").next().unwrap_or_default();
        let mut texts = line.iter().filter_map(|file| tree.text(file));
        return texts.any(|text| has_function(text, function));
    }
    let is_path = FOLDERS.iter().any(|folder| name.starts_with(folder)) && !name.contains(['*', '{', ' ']);
    let folder = format!("{}/", name.trim_end_matches('/'));
    !is_path || tree.text(name).is_some() || tree.files().any(|(path, _)| path.starts_with(&folder))
}

/// Whether a source defines the function.
fn has_function(text: &str, function: &str) -> bool {
    let behind = text.split("fn ").skip(1);
    behind
        .filter_map(|rest| rest.strip_prefix(function))
        .any(|rest| rest.starts_with(['(', '<']))
}

#[cfg(test)]
mod tests;
