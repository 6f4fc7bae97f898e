//! The papers of the project: the change log is open, every package inherits the lints.

use super::Finding;
use super::tree::Tree;

/// Findings for a closed change log and for manifests of packages without the workspace lints.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let open = |line: &str| line.trim_start_matches('#').trim().trim_matches(['[', ']']) == "Unreleased";
    let log = tree.text("CHANGELOG.md").unwrap_or_default();
    if !log.lines().any(|line| line.starts_with("## ") && open(line)) {
        findings.push(Finding::NoUnreleased);
    }
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        if text.contains("[package]") && !inherits_lints(text) {
            findings.push(Finding::LintsNotInherited(path.to_owned()));
        }
    }
    findings
}

fn inherits_lints(manifest: &str) -> bool {
    let mut lines = manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1);
    lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.replace(' ', "") == "workspace=true")
}

#[cfg(test)]
mod tests;
