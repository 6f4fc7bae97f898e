//! Clause ids tie SPEC.md to code and tests: a clause without either is a promise that nobody keeps.
//!
//! A clause is a paragraph of docs/SPEC.md that begins with its id in bold (`**S-4.2**`, also as a list item). Code
//! and tests cite it in a comment by the bare id. `docs/unproved.txt` lists the clauses still without proof, one a
//! line, `#` begins a remark; the list may only shrink: a listed clause that has its proof is a finding too.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Tree, is_test};
use super::{Finding, finding::Place};

const SPEC: &str = "docs/SPEC.md";
const UNPROVED: &str = "docs/unproved.txt";

/// Findings for clauses without proof and citations without clause. Without a SPEC.md every citation is unknown.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let clauses = clauses(tree.text(SPEC).unwrap_or_default(), &mut findings);
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
    for (id, place) in cited.code.into_iter().chain(cited.tests) {
        if !clauses.contains(&id) {
            findings.push(Finding::ClauseUnknown { id, place });
        }
    }
    findings
}

/// The clauses of the SPEC's text.
fn clauses(spec: &str, findings: &mut Vec<Finding>) -> BTreeSet<String> {
    let mut clauses = BTreeSet::new();
    for line in spec.lines() {
        let paragraph = line.trim_start().trim_start_matches(['-', '*', '>', ' ']);
        let bold = line.contains("**").then(|| paragraph.split("**").next()).flatten();
        if let Some(id) = bold.filter(|id| ids(id).next() == Some(*id))
            && !clauses.insert(id.to_owned())
        {
            findings.push(Finding::ClauseTwice(id.to_owned()));
        }
    }
    clauses
}

/// The clauses of `docs/unproved.txt`, in its order.
pub fn listed(tree: &Tree) -> Vec<String> {
    let text = tree.text(UNPROVED).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Where each id is cited first, by code and by tests.
#[derive(Default)]
struct Citations {
    code: BTreeMap<String, Place>,
    tests: BTreeMap<String, Place>,
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
        citations
    }
}

/// The clause ids in `text`: `S-` and at least two numbers with dots between, not part of a longer word.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("S-").filter_map(move |(start, _)| {
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
