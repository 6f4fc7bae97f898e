//! `cargo xtask bench`: Keepfs beside ext4, fuse2fs and bindfs on the same loop device, with bytes and flushes from the
//! kernel's block statistics; the table goes into docs/RESULTS.md.

use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::suites::build;
use crate::suites::process::{command, run};
use crate::sweep::Scratch;
use crate::{install, paths};

mod device;
mod peers;
mod table;

use device::{Counters, LoopDevice};
use peers::{PEERS, Peer};

/// Size of the device, in MiB.
const DEVICE_MIB: u64 = 3072;

/// What is measured: the workload, and whether the file system is mounted anew before (with empty caches).
const WORKLOADS: &[(&str, bool)] = &[
    ("create", false),
    ("varmail", false),
    ("stat", false),
    ("write", false),
    ("read", true),
];

/// One row: a workload on a file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    workload: &'static str,
    peer: &'static str,
    operations: f64,
    fsyncs: f64,
    bytes: f64,
    seconds: f64,
    device: Counters,
}

/// `cargo xtask bench [--seconds N] [--rounds N] [--only PEER]`; the median of the rounds counts. With `--only` the table
/// is printed and not stored.
pub fn command_line(args: &[&str]) -> Result<ExitCode, String> {
    let (mut seconds, mut rounds, mut only) = (5, 3, None);
    for pair in args.chunks(2) {
        match pair {
            ["--seconds", n] => seconds = number(n)?,
            ["--rounds", n] => rounds = number(n)?,
            ["--only", peer] => only = Some(*peer),
            _ => return Err("usage: cargo xtask bench [--seconds N] [--rounds N] [--only PEER]".into()),
        }
    }
    if !rustix::process::geteuid().is_root() {
        return Err("the benchmark needs root: it mounts file systems on a loop device".into());
    }
    install::peers()?;
    let workloads = build::release("keepfs-lab", "bench")?;
    let mut rows = Vec::new();
    for round in 1..=rounds {
        for peer in PEERS.iter().filter(|peer| only.is_none_or(|name| name == peer.name)) {
            println!("round {round} of {rounds}: {}", peer.name);
            rows.extend(measure(peer, &workloads, seconds)?);
        }
    }
    let text = table::render(&medians(&rows), seconds, rounds);
    println!("{text}");
    if only.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    table::store(&paths::root().join("docs/RESULTS.md"), &text)?;
    Ok(ExitCode::SUCCESS)
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("{text} is not a number above 0"))
}

/// All workloads on one peer, on a device of its own.
fn measure(peer: &'static Peer, program: &Path, seconds: u32) -> Result<Vec<Row>, String> {
    let scratch = Scratch::new()?;
    let device = LoopDevice::create(&scratch.path().join("device"), DEVICE_MIB)?;
    let dir = scratch.path().join("mnt");
    std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    (peer.make)(device.node())?;
    let mut mount = (peer.mount)(device.node(), &dir)?;
    let mut rows = Vec::new();
    for (workload, anew) in WORKLOADS {
        if ["stat", "varmail"].contains(workload) {
            work(program, &format!("{workload}-prepare"), &dir, seconds)?;
        }
        if *anew {
            mount.end()?;
            mount = (peer.mount)(device.node(), &dir)?;
        }
        let before = device.counters()?;
        let done = work(program, workload, &dir, seconds)?;
        let device = device.counters()?.since(before);
        let figure = |name: &str| done[name].as_f64().unwrap_or_default();
        rows.push(Row {
            workload,
            peer: peer.name,
            operations: figure("operations"),
            fsyncs: figure("fsyncs"),
            bytes: figure("bytes"),
            seconds: figure("seconds"),
            device,
        });
    }
    mount.end()?;
    Ok(rows)
}

fn work(program: &Path, workload: &str, dir: &Path, seconds: u32) -> Result<Value, String> {
    let line = run(command(program, dir).arg(workload).arg(dir).arg(seconds.to_string()))?;
    serde_json::from_str(&line).map_err(|e| format!("{workload}: {e}: {line}"))
}

/// For each workload and peer the row with the median speed.
fn medians(rows: &[Row]) -> Vec<Row> {
    let mut medians = Vec::new();
    for (workload, _) in WORKLOADS {
        for peer in PEERS {
            let mut same: Vec<&Row> = rows
                .iter()
                .filter(|row| row.workload == *workload && row.peer == peer.name)
                .collect();
            same.sort_by(|a, b| (a.operations / a.seconds).total_cmp(&(b.operations / b.seconds)));
            medians.extend(same.get(same.len() / 2).map(|row| (*row).clone()));
        }
    }
    medians
}
