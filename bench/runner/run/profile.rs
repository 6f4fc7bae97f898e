//! Where the time of an operation goes: perf(1) samples the clock of every processor while a workload runs, and each
//! sample's call stack says whose time it was (`stack`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::super::figure::{Figure, Work};
use super::super::peers::Peer;
use super::super::sample::Sample;
use super::super::session::{Bench, Session};
use super::super::work::{limited, limited_to};
use super::{Outcome, note};
use xtask::install;
use xtask::suites::process::command;
use xtask::sweep::Scratch;

mod stack;

use stack::{Part, parts};

/// Samples a second on each processor.
const RATE: u32 = 2000;
/// How long recording or reading a profile may take beyond the workload's seconds.
const PATIENCE: Duration = Duration::from_secs(300);
/// What the client is called, so that no other program on the machine has its name.
const CLIENT: &str = "keepfs-profiled";

/// Runs it: all workloads on each transport.
pub fn run(
    bench: &Bench,
    figure: &Figure,
    works: &[Work],
    chosen: &[&'static Peer],
    outcome: &mut Outcome,
) -> Result<(), String> {
    for peer in chosen {
        let done = match install::present("perf") {
            true => all(bench, figure, peer, works, outcome),
            false => Err("perf not found: cargo xtask install peers".into()),
        };
        note(bench, figure, peer.name, done, outcome)?;
    }
    Ok(())
}

fn all(
    bench: &Bench,
    figure: &Figure,
    peer: &'static Peer,
    works: &[Work],
    outcome: &mut Outcome,
) -> Result<(), String> {
    let scratch = Scratch::within(bench.programs.scratch())?;
    let client = scratch.path().join(CLIENT);
    std::os::unix::fs::symlink(&bench.programs.bench, &client).map_err(|e| format!("{}: {e}", client.display()))?;
    let mut session = Session::new(bench, peer, bench.profile(figure), &[])?;
    for work in works {
        if let Some(prepare) = work.prepare {
            session.run(prepare, 0.0)?;
        }
        let data = scratch.path().join("samples");
        let done = record(bench, &session, work, &client, &data)?;
        let server = session.server_pid()?;
        let parts = parts(&read(bench, &data, server)?, CLIENT, server);
        outcome.told(figure.name, sample(work.name, peer.name, &done, &parts)?);
    }
    session.unmount()
}

/// Runs the workload under perf; what it says.
fn record(bench: &Bench, session: &Session<'_>, work: &Work, client: &Path, data: &Path) -> Result<Value, String> {
    let seconds = bench.seconds * work.share;
    let mut perf = command("perf", bench.programs.scratch());
    perf.args([
        "record",
        "--no-buildid",
        "--no-buildid-cache",
        "--quiet",
        "--all-cpus",
        "--event=cpu-clock",
        "--call-graph=dwarf,8192",
    ]);
    perf.args(["--freq", &RATE.to_string(), "--output"]).arg(data).arg("--");
    // Without the sync at the end: it is no part of the operations.
    perf.arg(client).arg(format!("{}-unsynced", work.name));
    perf.arg(session.dir()).arg(seconds.to_string());
    perf.args(bench.percent.map(|percent| percent.to_string()));
    let line = limited(&mut perf, PATIENCE, &bench.stop)?;
    serde_json::from_str(&line).map_err(|e| format!("{}: {e}: {line}", work.name))
}

/// The samples of the client, the server and the kernel's workers as text: `command pid`, then a frame in each line from the
/// innermost outwards, then an empty line.
fn read(bench: &Bench, data: &Path, server: i64) -> Result<String, String> {
    // The stacks of whatever else ran are not unwound: that takes longer than everything else.
    let heads = script(bench, data, &["--fields=comm,pid", "--hide-call-graph"])?;
    let pids = stack::asked_for(&heads, CLIENT, server);
    let pids = pids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    script(
        bench,
        data,
        &["--no-inline", "--fields=comm,pid,ip,sym", "--pid", &pids],
    )
}

/// What `perf script` says.
fn script(bench: &Bench, data: &Path, args: &[&str]) -> Result<String, String> {
    // More than a pipe holds while nobody reads it.
    let path = data.with_extension("text");
    let text = std::fs::File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut perf = command("perf", bench.programs.scratch());
    // It complains of every program that went away before it looked.
    perf.arg("script")
        .args(args)
        .arg("--input")
        .arg(data)
        .stderr(Stdio::null());
    limited_to(&mut perf, text, PATIENCE, &bench.stop)?;
    std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Microseconds of each part for an operation; what is left of its time nothing of it ran.
fn sample(workload: &str, peer: &str, done: &Value, parts: &BTreeMap<Part, u64>) -> Result<Sample, String> {
    let figure = |name: &str| done[name].as_f64().filter(|value| *value > 0.0);
    let (Some(operations), Some(seconds)) = (figure("operations"), figure("seconds")) else {
        return Err(format!("{workload} did nothing: {done}"));
    };
    let each = |seconds: f64| seconds * 1e6 / operations;
    let mut sample = Sample::new(workload, peer, each(seconds), "us");
    sample.more.insert("operations".into(), operations);
    let mut busy = 0.0;
    for (part, count) in parts {
        let us = each(*count as f64 / f64::from(RATE));
        sample.more.insert(part.key().to_owned(), us);
        busy += us;
    }
    sample.more.insert("idle_us".into(), (sample.value - busy).max(0.0));
    let counted = parts.values().sum::<u64>();
    sample.more.insert("samples".into(), counted as f64);
    match counted {
        0 => Err(format!("{workload}: no sample is of the client or the server")),
        _ => Ok(sample),
    }
}

#[cfg(test)]
mod tests;
