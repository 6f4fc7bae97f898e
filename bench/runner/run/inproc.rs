//! The library in process and file systems of the kernel doing the same calls (bench/src/inproc): a row for each operation,
//! file system and number of threads.

use std::time::Duration;

use serde_json::Value;

use super::super::figure::Figure;
use super::super::floor;
use super::super::peers::Peer;
use super::super::programs::Programs;
use super::super::sample::Sample;
use super::super::session::{Bench, Session};
use super::super::work::limited;
use super::{Outcome, note};

/// Files that each thread makes at full size, and times that it does each other operation.
const FILES: usize = 50_000;
/// How long a run may take beyond varmail's seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs it: file systems take turns within each round; Keepfs also on memory instead of a device, once as two programs.
pub fn run(
    bench: &Bench,
    figure: &Figure,
    chosen: &[&'static Peer],
    rounds: u32,
    outcome: &mut Outcome,
) -> Result<(), String> {
    for round in 1..=rounds {
        let label = format!("{} {round}/{rounds}", figure.name);
        for peer in chosen {
            if peer.is_keepfs() {
                let done = asked(bench, &[]).map(|done| told(&label, samples("in memory", &done), outcome));
                note(bench, figure, peer.name, done, outcome)?;
                let done = two_programs(bench).map(|done| told(&label, done, outcome));
                note(bench, figure, peer.name, done, outcome)?;
            }
            let done = on_device(bench, figure, peer).map(|done| told(&label, samples(peer.name, &done), outcome));
            note(bench, figure, peer.name, done, outcome)?;
        }
    }
    Ok(())
}

/// On a new loop device: Keepfs opens it in process, others are mounted.
pub fn on_device(bench: &Bench, figure: &Figure, peer: &'static Peer) -> Result<Value, String> {
    let profile = bench.profile(figure);
    if peer.is_keepfs() {
        let session = Session::on_device(bench, peer, profile, &[])?;
        return asked(bench, &["--device", &session.node().to_string_lossy()]);
    }
    let mut session = Session::new(bench, peer, profile, &[])?;
    let done = asked(bench, &["--dir", &session.dir().to_string_lossy()])?;
    session.unmount()?;
    Ok(done)
}

/// Two programs at once with a thread and a pool in memory each: they share nothing but the machine, so two threads that
/// share a pool can have no more (P-8).
fn two_programs(bench: &Bench) -> Result<Vec<Sample>, String> {
    let one = || asked(bench, &["--threads", "1", "--varmail", "0"]);
    let (first, second) = std::thread::scope(|scope| {
        let beside = scope.spawn(one);
        (one(), beside.join().map_err(|_| "a program's thread died".to_owned()))
    });
    Ok(together(
        samples("in memory", &first?),
        &samples("in memory", &second??),
    ))
}

/// Of both the sum of what they do a second, and the mean of everything else.
fn together(mut first: Vec<Sample>, second: &[Sample]) -> Vec<Sample> {
    for (row, other) in first.iter_mut().zip(second) {
        row.peer.push_str(floor::TWO_PROGRAMS);
        row.value = f64::midpoint(row.value, other.value);
        for (name, value) in &mut row.more {
            let sum = *value + other.get(name).unwrap_or_default();
            *value = if name == "per_second" { sum } else { sum / 2.0 };
        }
    }
    first
}

/// What the program says.
fn asked(bench: &Bench, place: &[&str]) -> Result<Value, String> {
    let files = (FILES * bench.percent.unwrap_or(100) / 100).max(100).to_string();
    let seconds = bench.seconds.to_string();
    let mut program = Programs::in_process(&bench.programs.inproc, bench.programs.scratch());
    program.args(["--files", &files, "--varmail", &seconds]).args(place);
    let line = limited(&mut program, PATIENCE, &bench.stop)?;
    serde_json::from_str(&line).map_err(|e| format!("inproc: {e}: {line}"))
}

fn told(label: &str, mut all: Vec<Sample>, outcome: &mut Outcome) {
    let peer = all.first().map_or("", |sample| &sample.peer);
    // All that a run tells belongs to one line of progress.
    let words = all
        .iter()
        .map(|sample| format!("{} {:.2}", sample.workload, sample.value));
    println!("{label}  {peer}: {}", words.collect::<Vec<_>>().join(", "));
    outcome.samples.append(&mut all);
}

/// A sample for each of its rows: the median of single calls, us. More than one thread stand behind a file system's name.
pub fn samples(peer: &str, done: &Value) -> Vec<Sample> {
    let rows = done["rows"].as_array().into_iter().flatten();
    let mut all: Vec<Sample> = rows.filter_map(|row| operation(peer, row)).collect();
    all.extend(varmail(peer, &done["varmail"]));
    all
}

fn operation(peer: &str, row: &Value) -> Option<Sample> {
    let us = |name: &str| row[name].as_f64().map(|ns| ns / 1e3);
    let peer = match row["threads"].as_u64()? {
        1 => peer.to_owned(),
        threads => format!("{peer}, {threads} threads"),
    };
    let mut sample = Sample::new(row["operation"].as_str()?, &peer, us("median_ns")?, "us");
    let numbers = [
        ("p99_us", us("p99_ns")?),
        ("processor_us", us("cpu_ns")?),
        ("process_us", us("all_cpu_ns")?),
        ("per_second", row["per_second"].as_f64()?),
    ];
    sample.more = numbers.map(|(name, value)| (name.to_owned(), value)).into();
    Some(sample)
}

fn varmail(peer: &str, done: &Value) -> Option<Sample> {
    let figure = |name: &str| done[name].as_f64();
    let (operations, fsyncs) = (figure("operations")?, figure("fsyncs")?);
    let mut sample = Sample::new("varmail", peer, figure("per_second")?, "op/s");
    let numbers = [
        ("operations", operations),
        ("fsyncs", fsyncs),
        ("per_second", sample.value),
        ("written", figure("kib_per_fsync")? * 1024.0 * fsyncs),
        ("flushes", figure("flushes_per_fsync")? * fsyncs),
    ];
    sample.more = numbers.map(|(name, value)| (name.to_owned(), value)).into();
    Some(sample)
}

#[cfg(test)]
mod tests;
