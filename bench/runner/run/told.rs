//! Programs of the lab that tell their figures as samples, a line each: the papers' experiments in process.

use std::path::Path;
use std::time::Duration;

use super::super::programs::Programs;
use super::super::sample::Sample;
use super::super::session::Bench;
use super::super::work::limited;
use super::Outcome;
use xtask::suites::build;
use xtask::suites::process::command;

/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What tells: a program of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// `papers` with these words.
    Papers(&'static [&'static str]),
    /// `audits matrix-told`, in a build with planted bugs.
    Planted,
    /// `inject told` with this bar, in the same build.
    Injected(&'static str),
}

/// Asks all of them, one after the other, in each round.
pub fn run(bench: &Bench, name: &str, tellers: &[Teller], rounds: u32, outcome: &mut Outcome) -> Result<(), String> {
    for round in 1..=rounds {
        for teller in tellers {
            let text = asked(bench, *teller)?;
            let before = outcome.samples.len();
            for sample in text.lines().filter_map(line) {
                outcome.told(&format!("{name} {round}/{rounds}"), sample);
            }
            if outcome.samples.len() == before {
                return Err(format!("nothing in its output is a figure:\n{text}"));
            }
        }
    }
    Ok(())
}

fn asked(bench: &Bench, teller: Teller) -> Result<String, String> {
    let scratch = bench.programs.scratch();
    match teller {
        Teller::Papers(words) => {
            let mut program = Programs::in_process(&bench.programs.papers, scratch);
            program.args(words);
            if let Some(percent) = bench.percent {
                program.args(["--percent", &percent.to_string()]);
            }
            limited(&mut program, PATIENCE, &bench.stop)
        }
        Teller::Planted => planted(bench, "audits", &["matrix-told"]),
        Teller::Injected(bar) => planted(bench, "inject", &["told", bar]),
    }
}

/// What a program of the lab says, built with planted bugs, which it switches on by itself.
fn planted(bench: &Bench, program: &str, words: &[&str]) -> Result<String, String> {
    let program = build::release_with("keepfs-lab", program, "planted")?;
    limited(command(&program, Path::new("/")).args(words), PATIENCE, &bench.stop)
}

/// A line of JSON as [`Sample::json`] writes it.
fn line(line: &str) -> Option<Sample> {
    Sample::parse(&serde_json::from_str(line).ok()?)
}

#[cfg(test)]
mod tests;
