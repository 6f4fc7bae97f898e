//! `cargo xtask tidy`: what a machine can check needs no reviewer.
//!
//! A check is a function from a [`Tree`] (or from cargo's metadata) to [`Finding`]s. Findings are values, so that
//! the test of a check breaks one thing and expects exactly that finding.

use std::process::ExitCode;

mod attacks;
mod bans;
mod circles;
mod citations;
mod clauses;
mod decisions;
mod fences;
mod finding;
mod floors;
mod heads;
mod lengths;
mod papers;
mod signposts;
mod source;
mod tree;

pub use finding::Finding;
pub use tree::Tree;

/// Runs every check over the workspace and prints what was found.
pub fn command() -> Result<ExitCode, String> {
    let tree = Tree::load(&crate::paths::root())?;
    let mut findings = floors::check(&floors::metadata()?)?;
    for check in CHECKS {
        findings.extend(check(&tree));
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let unproved = clauses::listed(&tree);
    if !unproved.is_empty() {
        println!("clauses still without proof: {}", unproved.join(" "));
    }
    println!("tidy: {} files, {} findings", tree.len(), findings.len());
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Every check that needs nothing but the files.
const CHECKS: &[fn(&Tree) -> Vec<Finding>] = &[
    fences::check,
    fences::check_unused,
    clauses::check,
    lengths::check,
    heads::check,
    bans::check,
    papers::check,
    attacks::check,
    decisions::check,
    circles::check,
    citations::check,
    signposts::check,
];
