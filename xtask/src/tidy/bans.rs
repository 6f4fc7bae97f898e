//! Words that the house does not use; every ban names its replacement.

use super::source::{code_only, has_word};
use super::tree::{Tree, is_test};
use super::{Finding, finding::Place};

/// Where a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// In code, comments and literals aside.
    Code,
    /// In the code of tests.
    TestCode,
    /// In every text of the project, comments and documents too.
    Text,
}

struct Ban {
    word: &'static str,
    scope: Where,
    instead: &'static str,
}

const fn ban(word: &'static str, scope: Where, instead: &'static str) -> Ban {
    Ban { word, scope, instead }
}

// Words that are banned in every text are written in two pieces, so that this file keeps the rule.
const BANS: &[Ban] = &[
    ban(
        "todo!",
        Where::Code,
        "build it, or return an error that says it is not supported",
    ),
    ban(
        "unimplemented!",
        Where::Code,
        "build it, or return an error that says it is not supported",
    ),
    ban("dbg!", Where::Code, "tracing, or nothing"),
    ban(
        "#[ignore",
        Where::Code,
        "a stage of `cargo xtask test --long` (xtask/src/stages.rs)",
    ),
    ban(concat!("FIX", "ME"), Where::Text, "an issue, or the fix"),
    ban(concat!("XX", "X"), Where::Text, "an issue, or the fix"),
    ban(
        "thread::sleep",
        Where::TestCode,
        "wait for the event: a channel, a condition variable, poll(2)",
    ),
    ban(
        concat!("/wo", "rk"),
        Where::Text,
        "a path inside the project, or a temporary directory",
    ),
    ban(
        concat!("/fa", "rm"),
        Where::Text,
        "a path inside the project, or a temporary directory",
    ),
];

/// Module names that say nothing.
const NAMELESS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Findings for every banned word and module name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let rust = path.ends_with(".rs");
        findings.extend(words(path, text, |ban| ban.scope == Where::Text));
        if rust {
            let code = code_only(text);
            findings.extend(words(path, &code, |ban| ban.scope == Where::Code));
            if is_test(path) {
                findings.extend(words(path, &code, |ban| ban.scope == Where::TestCode));
            }
            findings.extend(module_name(path));
        }
    }
    findings
}

fn words(path: &str, text: &str, banned: impl Fn(&Ban) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in BANS.iter().filter(|ban| banned(ban)) {
        for (at, _) in text.lines().enumerate().filter(|(_, line)| has_word(line, ban.word)) {
            findings.push(Finding::Banned {
                place: Place::new(path, at + 1),
                word: ban.word,
                instead: ban.instead,
            });
        }
    }
    findings
}

fn module_name(path: &str) -> Option<Finding> {
    let mut parts = path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
    let name = parts.find_map(|part| NAMELESS.iter().copied().find(|name| *name == part))?;
    Some(Finding::ModuleName {
        file: path.to_owned(),
        name,
    })
}

#[cfg(test)]
mod tests;
