//! The papers' own figures beside ours: a row for each bar of an experiment that a paper has.

use std::fmt::Write;

use super::bars::{self, Verdict};
use super::results::Results;
use super::sample::rounds;

/// Papers that have figures of their own, by the first word of those figures' names.
pub const PAPERS: [&str; 2] = ["greenan", "wafl"];

/// What a paper found where a bar was set.
struct Theirs {
    /// The bar.
    id: &'static str,
    /// Where in the paper.
    place: &'static str,
    /// What it found.
    found: &'static str,
}

const fn theirs(id: &'static str, place: &'static str, found: &'static str) -> Theirs {
    Theirs { id, place, found }
}

const THEIRS: &[Theirs] = &[
    theirs(
        "M-1",
        "Greenan & Miller, section 5.2",
        "4 injections reached memory in 10 runs of 250,000",
    ),
    theirs(
        "M-2",
        "Greenan & Miller, figure 6",
        "1.5 to 2.2 % pass mprotect, more than 90 % of those are caught, some undetected",
    ),
    theirs(
        "M-3",
        "Greenan & Miller, figure 7",
        "3 to 4 times slower with all protections",
    ),
    theirs(
        "M-4",
        "Greenan & Miller, figures 8 and 9",
        "codes 5 to 10 times, encoding alone 3 (256 bytes) and 5 (64), most of it mprotect",
    ),
    theirs(
        "M-9",
        "WAFL, figures 1 and 2",
        "0 to 2 %; 30 % in the style of Recon, 20 % more with mprotect",
    ),
    theirs("M-10", "WAFL, section 7.1", "7.5 to 7.8 % a freed block"),
    theirs("M-11", "WAFL, section 7.4", "all caught before the superblock"),
    theirs(
        "M-12",
        "WAFL, section 7.5",
        "23 logic bugs found by audits of 20 and more equations",
    ),
    theirs("M-23", "WAFL, section 7.4", "always caught by audits"),
    theirs("P-6", "none", ""),
];

/// Of which paper a figure is.
pub fn of(figure: &str) -> Option<&'static str> {
    let own = |paper: &&str| figure.strip_prefix(*paper).is_some_and(|rest| rest.starts_with('-'));
    PAPERS.iter().find(|paper| own(paper)).copied()
}

/// The table; empty if none of the results is a paper's.
pub fn table(all: &[Results]) -> String {
    let of_papers = all.iter().filter(|results| of(results.figure.name).is_some());
    let verdicts: Vec<Verdict> = of_papers
        .flat_map(|results| bars::verdicts(results.figure.name, &rounds(&results.samples)))
        .collect();
    if verdicts.is_empty() {
        return String::new();
    }
    let mut text = "## Papers beside us\n\nWritten by `cargo xtask papers all`; what the paper found, what is asked here and \
                    what was measured.\n\n| bar | paper | their figure | ours: figure | workload | asked | measured | met \
                    |\n|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for theirs in THEIRS {
        for verdict in verdicts.iter().filter(|verdict| verdict.id == theirs.id) {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{}", row(theirs, verdict));
        }
    }
    text
}

fn row(theirs: &Theirs, verdict: &Verdict) -> String {
    let met = if verdict.met { "yes" } else { "**no**" };
    format!(
        "| {} | {} | {} | [{3}](#{3}) | {4} | {5} | {6} | {met} |",
        verdict.id, theirs.place, theirs.found, verdict.figure, verdict.workload, verdict.asked, verdict.measured
    )
}

#[cfg(test)]
mod tests;
