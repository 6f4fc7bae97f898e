//! Clause ids tie SPEC.md and PROTOCOLS.md to code and tests: a clause without either is a promise that nobody keeps.
//!
//! A clause is a paragraph of docs/SPEC.md that begins with its id in bold (`**S-4.2**`, also as a list item), or one of
//! docs/PROTOCOLS.md (`**X-4.2**`). Code and tests cite it in a comment by the bare id, documents do in a sentence.
//! `docs/unproved.txt` lists the clauses still without proof, one a line, `#` begins a remark; the list may only shrink: a
//! listed clause that has its proof is a finding too.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Tree, is_test};
use super::{Finding, finding::Place};

pub(super) const SPEC: &str = "docs/SPEC.md";
const PROTOCOLS: &str = "docs/PROTOCOLS.md";
const UNPROVED: &str = "docs/unproved.txt";

/// Documents that tell what was, with clauses that may have gone since.
const PAST: &[&str] = &["CHANGELOG.md", "docs/decisions/", "docs/results/"];

/// Findings for clauses without proof and citations without clause. Without a SPEC.md every citation is unknown.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut clauses = BTreeSet::new();
    for file in [SPEC, PROTOCOLS] {
        add_clauses(file, tree, &mut clauses, &mut findings);
    }
    let cited = Citations::of(tree);
    let listed: BTreeSet<String> = listed(tree).into_iter().collect();
    for id in &clauses {
        let tested = cited.tests.contains_key(id);
        let coded = cited.code.contains_key(id);
        if listed.contains(id) {
            findings.extend((tested && coded).then(|| Finding::ClauseProved(id.clone())));
            continue;
        }
        findings.extend((!tested).then(|| Finding::ClauseWithoutTest(id.clone())));
        findings.extend((!coded).then(|| Finding::ClauseWithoutCode(id.clone())));
    }
    findings.extend(
        listed
            .difference(&clauses)
            .map(|id| Finding::ClauseListedUnknown(id.clone())),
    );
    for (id, place) in cited.code.into_iter().chain(cited.tests).chain(cited.documents) {
        if !clauses.contains(&id) {
            findings.push(Finding::ClauseUnknown { id, place });
        }
    }
    findings
}

/// The document that has the clause `id`.
pub fn document(id: &str) -> &'static str {
    match id.starts_with("X-") {
        true => PROTOCOLS,
        false => SPEC,
    }
}

/// Adds the clauses of one document.
fn add_clauses(file: &str, tree: &Tree, clauses: &mut BTreeSet<String>, findings: &mut Vec<Finding>) {
    for id in tree
        .text(file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| defined(file, line))
    {
        if !clauses.insert(id.to_owned()) {
            findings.push(Finding::ClauseTwice(id.to_owned()));
        }
    }
}

/// The id of the clause of `file` that begins with this line.
pub(super) fn defined<'l>(file: &str, line: &'l str) -> Option<&'l str> {
    let paragraph = line.trim_start().trim_start_matches(['-', '*', '>', ' ']);
    let bold = line.contains("**").then(|| paragraph.split("**").next()).flatten();
    bold.filter(|id| ids(id).next() == Some(*id) && document(id) == file)
}

/// The clauses of `docs/unproved.txt`, in its order.
pub fn listed(tree: &Tree) -> Vec<String> {
    let text = tree.text(UNPROVED).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Where each id is cited first, by code, by tests and by documents.
#[derive(Default)]
struct Citations {
    code: BTreeMap<String, Place>,
    tests: BTreeMap<String, Place>,
    documents: BTreeMap<String, Place>,
}

impl Citations {
    fn of(tree: &Tree) -> Self {
        let mut citations = Self::default();
        // The rules' own sources speak of made-up clauses.
        for (path, text) in tree.sources().filter(|(path, _)| !path.starts_with("xtask/")) {
            let mut in_tests = is_test(path);
            for (at, line) in text.lines().enumerate() {
                in_tests |= line.trim_start().starts_with("#[test]") || line.contains("#[cfg(test)]");
                let side = if in_tests {
                    &mut citations.tests
                } else {
                    &mut citations.code
                };
                for id in ids(line) {
                    side.entry(id.to_owned()).or_insert_with(|| Place::new(path, at + 1));
                }
            }
        }
        let is_past = |path: &str| PAST.iter().any(|past| path.starts_with(past));
        for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md") && !is_past(path)) {
            for (at, line) in text.lines().enumerate() {
                for id in ids(line) {
                    let cited = citations.documents.entry(id.to_owned());
                    cited.or_insert_with(|| Place::new(path, at + 1));
                }
            }
        }
        citations
    }
}

/// The clause ids in `text`: `S-` or `X-` and at least two numbers with dots between, not part of a longer word.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("-").filter_map(move |(dash, _)| {
        let start = dash
            .checked_sub(1)
            .filter(|at| matches!(text.as_bytes()[*at], b'S' | b'X'))?;
        let before = text[..start].chars().next_back();
        let rest = &text[start + 2..];
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let number = rest[..end].trim_end_matches('.');
        let whole = !before.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_');
        let well_formed = number.contains('.') && number.split('.').all(|part| !part.is_empty());
        (whole && well_formed).then(|| &text[start..start + 2 + number.len()])
    })
}

#[cfg(test)]
mod tests;
