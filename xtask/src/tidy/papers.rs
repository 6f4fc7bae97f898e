//! The papers of the project: the change log is open, every package inherits the lints, releases check overflow where they must.

use super::Finding;
use super::tree::Tree;

/// Packages in which releases check overflow (decision 0770).
const CHECKED: &[&str] = &[
    "keepfs-check",
    "keepfs-digest",
    "keepfs-flash",
    "keepfs-format",
    "keepfs-frames",
    "keepfs-fs",
    "keepfs-memory",
    "keepfs-pool",
    "keepfs-store",
    "keepfs-vault",
];

/// Findings for a closed change log, for manifests of packages without the workspace lints, and for releases that let overflow pass.
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
    let workspace = tree.text("Cargo.toml").unwrap_or_default();
    let release = workspace.split("[profile.release.package]").nth(1).unwrap_or_default();
    let is_checked = |package: &&&str| {
        let line = format!("{package}.overflow-checks=true");
        let own = release.lines().skip(1).take_while(|line| !line.starts_with('['));
        own.map(|line| line.replace(' ', "")).any(|own| own == line)
    };
    let unchecked = CHECKED.iter().filter(|package| !is_checked(package));
    findings.extend(unchecked.map(|package| Finding::OverflowUnchecked(package)));
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
