//! 10^7 files, and a directory of 10^6, in process: the lines of `million --grow` as samples.

use std::time::Duration;

use serde_json::Value;

use super::super::programs::Programs;
use super::super::sample::Sample;
use super::super::session::Bench;
use super::super::work::limited_telling;
use super::{Outcome, growth};

/// How long it may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A tree that is made: what it is called, files and directories of it, MiB of the arena.
struct Tree {
    name: &'static str,
    files: u64,
    dirs: u64,
    arena_mib: u32,
}

const TREES: [Tree; 2] = [
    Tree {
        name: "one directory",
        files: 1_000_000,
        dirs: 1,
        arena_mib: 256,
    },
    Tree {
        name: "100 directories",
        files: 10_000_000,
        dirs: 100,
        arena_mib: 256,
    },
];

/// Runs both, with what they say of their progress.
pub fn run(bench: &Bench, outcome: &mut Outcome) -> Result<(), String> {
    for tree in &TREES {
        let files = (tree.files * bench.percent.unwrap_or(100) as u64 / 100).max(10_000);
        let scratch = xtask::sweep::Scratch::within(bench.programs.scratch())?;
        let mut program = Programs::in_process(&bench.programs.million, scratch.path());
        let wishes = [
            ("--grow", files),
            ("--dirs", tree.dirs),
            ("--changes", 20_000),
            ("--arena", tree.arena_mib.into()),
        ];
        for (option, value) in wishes {
            program.arg(option).arg(value.to_string());
        }
        program.arg("--image").arg(scratch.path().join("pool"));
        println!("huge: {files} files in {}", tree.name);
        let text = limited_telling(&mut program, PATIENCE, &bench.stop)?;
        for sample in text.lines().filter_map(|line| sample(line, tree.name)) {
            outcome.told("huge", sample);
        }
    }
    Ok(())
}

/// A line of growth, or one of the lines that `million` prints for mounts and memory.
fn sample(line: &str, tree: &str) -> Option<Sample> {
    let Ok(told) = serde_json::from_str::<Value>(line) else {
        let mut sample = growth::line(line)?;
        sample.workload = format!("{}, {tree}", sample.workload);
        return Some(sample);
    };
    let figure = |name: &str| told[name].as_f64();
    let files = figure("files")?;
    let mut sample = Sample::new(
        &format!("{}, {tree}", told["what"].as_str()?),
        &size(files),
        figure("mean_us")?,
        "us",
    );
    for name in ["operations", "p50_us", "p99_us", "processor_us", "evictions"] {
        if let Some(value) = figure(name) {
            sample.more.insert(name.to_owned(), value);
        }
    }
    Some(sample)
}

/// `10^n files` where it is one.
fn size(files: f64) -> String {
    let power = files.log10().round();
    match 10f64.powf(power) == files {
        true => format!("10^{power} files"),
        false => format!("{files} files"),
    }
}

#[cfg(test)]
mod tests;
