//! Many files in process: the lines of `million` as samples.

use super::super::sample::Sample;
use super::super::session::Bench;
use super::{Outcome, output_in_scratch};

/// Files at full size.
const FILES: usize = 1_000_000;

/// Runs it.
pub fn run(bench: &Bench, outcome: &mut Outcome) -> Result<(), String> {
    let files = (FILES * bench.percent.unwrap_or(100) / 100).max(10_000).to_string();
    let args = ["--files", &files, "--changes", "20000", "--arena", "64", "--image"];
    println!("growth: {files} files");
    let text = output_in_scratch(bench, &bench.programs.million, &args)?;
    for sample in text.lines().filter_map(line) {
        outcome.told("growth", sample);
    }
    match outcome.samples.is_empty() {
        true => Err(format!("nothing in its output is a figure:\n{text}")),
        false => Ok(()),
    }
}

/// `what  N in S s = U us each, …`, or the peak of memory.
pub fn line(line: &str) -> Option<Sample> {
    if let Some(peak) = line.strip_prefix("peak beside the arena: ") {
        let mib = peak.strip_suffix(" MiB")?.parse().ok()?;
        return Some(Sample::new("peak beside the arena", "keepfs", mib, "MiB"));
    }
    let (head, tail) = line.rsplit_once(" in ")?;
    let (what, count) = head.trim_end().rsplit_once(' ')?;
    let each: f64 = tail
        .split_once(" s = ")?
        .1
        .split_once(" us each")?
        .0
        .trim()
        .parse()
        .ok()?;
    let count: f64 = count.parse().ok()?;
    let mut sample = match count {
        1.0 => Sample::new(what.trim(), "keepfs", each / 1e6, "s"),
        _ => Sample::new(what.trim(), "keepfs", each, "us"),
    };
    sample.more.insert("operations".into(), count);
    Some(sample)
}

#[cfg(test)]
mod tests;
