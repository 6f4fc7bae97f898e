//! A clause of SPEC.md is read at one go: it has at most 600 characters, its tables aside.
//!
//! A clause goes from its id to the next id or heading. [`LONG`] has those that are longer; it only shrinks.

use super::Finding;
use super::clauses::{SPEC, defined};
use super::tree::Tree;

/// Characters a clause may have.
const CHARACTERS_MAX: usize = 600;

/// Clauses that are longer, to be cut or split.
const LONG: &[&str] = &[];

/// Findings for clauses that are too long, and for rows of [`LONG`] that are not needed any more.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, LONG)
}

fn check_with(tree: &Tree, listed: &[&str]) -> Vec<Finding> {
    let long: Vec<(String, usize)> = lengths(tree.text(SPEC).unwrap_or_default())
        .into_iter()
        .filter(|(_, characters)| *characters > CHARACTERS_MAX)
        .collect();
    let unneeded = listed.iter().filter(|row| !long.iter().any(|(id, _)| id == *row));
    let mut findings: Vec<Finding> = unneeded.map(|id| Finding::ClauseNotLong((*id).to_owned())).collect();
    let found = long.into_iter().filter(|(id, _)| !listed.contains(&id.as_str()));
    findings.extend(found.map(|(id, characters)| Finding::ClauseLong {
        id,
        characters,
        max: CHARACTERS_MAX,
    }));
    findings
}

/// Each clause with the number of its characters.
fn lengths(text: &str) -> Vec<(String, usize)> {
    let mut clauses: Vec<(String, usize)> = Vec::new();
    let mut is_in_clause = false;
    for line in text.lines() {
        if let Some(id) = defined(SPEC, line) {
            clauses.push((id.to_owned(), 0));
            is_in_clause = true;
        } else if line.starts_with('#') {
            is_in_clause = false;
        }
        let counts = is_in_clause && !line.trim_start().starts_with('|');
        if let Some((_, characters)) = clauses.last_mut().filter(|_| counts) {
            *characters += line.chars().count();
        }
    }
    clauses
}

#[cfg(test)]
mod tests;
