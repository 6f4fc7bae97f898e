//! Running a figure: peers take turns within each round, and one that fails does not end the others.

use std::time::{Duration, Instant};

use super::device::Profile;
use super::figure::{EVERYDAY, Figure, Kind, Work};
use super::peers::{self, Peer};
use super::programs::Programs;
use super::sample::Sample;
use super::session::{Bench, Session};
use super::table::number;
use super::work::limited;

use xtask::install;

mod growth;
mod huge;
mod inproc;
mod profile;
mod told;

pub use told::Teller;

/// Sizes of the arena of the memory sweep, MiB.
const ARENAS_MIB: [u32; 5] = [16, 32, 64, 128, 256];
/// How long the second unmount waits (ReconFS Fig. 12).
const QUIET: Duration = Duration::from_secs(90);

/// A peer that gave no figures, or not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Which.
    pub peer: String,
    /// Why.
    pub why: String,
}

/// What a figure gave.
#[derive(Default)]
pub struct Outcome {
    /// All runs.
    pub samples: Vec<Sample>,
    /// What did not run.
    pub missing: Vec<Missing>,
}

impl Outcome {
    /// A peer failed, or is not there.
    fn failed(&mut self, peer: &str, why: &str) {
        // A program's last words say most; its command line stands before them.
        let why = why
            .lines()
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or_default()
            .to_owned();
        if !self.missing.iter().any(|missing| missing.peer == peer) {
            let peer = peer.to_owned();
            self.missing.push(Missing { peer, why });
        }
    }

    fn told(&mut self, label: &str, sample: Sample) {
        let counted = match (sample.each("written"), sample.each("flushes")) {
            (Some(bytes), Some(flushes)) => {
                format!(", {:.1} KiB and {flushes:.2} flushes an operation", bytes / 1024.0)
            }
            _ => String::new(),
        };
        let value = number(sample.value);
        println!(
            "{label}  {} {}: {value} {}{counted}",
            sample.workload, sample.peer, sample.unit
        );
        self.samples.push(sample);
    }
}

/// Runs a figure on those of its peers that `only` names (all if empty). Errors: a signal came.
pub fn figure(bench: &Bench, figure: &Figure, only: &[&str]) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    let mut chosen = Vec::new();
    let named = figure.peers.iter().filter_map(|name| peers::named(name));
    for peer in named.filter(|peer| only.is_empty() || only.contains(&peer.name)) {
        match peer.missing() {
            Some(why) => {
                println!("{}: {} skipped: {why}", figure.name, peer.name);
                outcome.failed(peer.name, &why);
            }
            None => chosen.push(peer),
        }
    }
    if figure.name == EVERYDAY
        && let Err(why) = install::programs()
    {
        println!("{}: {why}", figure.name);
        chosen.iter().for_each(|peer| outcome.failed(peer.name, &why));
        return Ok(outcome);
    }
    let rounds = bench.rounds.min(figure.rounds_max);
    match &figure.kind {
        Kind::Works(works) => turns(bench, figure, works, &chosen, rounds, &mut outcome)?,
        Kind::Arenas(names) if !chosen.is_empty() => arenas(bench, figure, names, rounds, &mut outcome)?,
        Kind::Unmount => unmount(bench, figure, &chosen, &mut outcome)?,
        Kind::Recovery if !chosen.is_empty() => {
            let failed = recovery(bench, figure, chosen[0], &mut outcome);
            note(bench, figure, chosen[0].name, failed, &mut outcome)?;
        }
        Kind::Growth if !chosen.is_empty() => {
            let failed = growth::run(bench, &mut outcome);
            note(bench, figure, chosen[0].name, failed, &mut outcome)?;
        }
        Kind::InProcess => inproc::run(bench, figure, &chosen, rounds, &mut outcome)?,
        Kind::Where(works) => profile::run(bench, figure, works, &chosen, &mut outcome)?,
        Kind::Told(tellers) if !chosen.is_empty() => {
            let failed = told::run(bench, figure.name, tellers, rounds, &mut outcome);
            note(bench, figure, chosen[0].name, failed, &mut outcome)?;
        }
        Kind::Huge if !chosen.is_empty() => {
            let failed = huge::run(bench, &mut outcome);
            note(bench, figure, chosen[0].name, failed, &mut outcome)?;
        }
        Kind::Arenas(_) | Kind::Recovery | Kind::Growth | Kind::Huge | Kind::Told(_) => {}
    }
    Ok(outcome)
}

/// Notes a failure; a signal is passed on.
fn note(
    bench: &Bench,
    figure: &Figure,
    peer: &str,
    result: Result<(), String>,
    outcome: &mut Outcome,
) -> Result<(), String> {
    if let Err(why) = result {
        bench.stop.check()?;
        println!("{}: {peer} failed: {why}", figure.name);
        // Where this run had its files says nothing to a reader of the table.
        let why = why.replace(&*bench.programs.scratch().to_string_lossy(), "");
        outcome.failed(peer, &why);
    }
    Ok(())
}

fn turns(
    bench: &Bench,
    figure: &Figure,
    works: &[Work],
    chosen: &[&'static Peer],
    rounds: u32,
    outcome: &mut Outcome,
) -> Result<(), String> {
    for round in 1..=rounds {
        for peer in chosen {
            if peer.is_slow() && round > 1 {
                continue;
            }
            let label = format!("{} {round}/{rounds}", figure.name);
            let done = works_on(bench, peer, bench.profile(figure), works, &[], &label, outcome);
            note(bench, figure, peer.name, done, outcome)?;
        }
    }
    Ok(())
}

fn works_on(
    bench: &Bench,
    peer: &'static Peer,
    profile: Profile,
    works: &[Work],
    options: &[&str],
    label: &str,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let mut session = Session::new(bench, peer, profile, options)?;
    let (mut sum, mut jobs) = (0.0, true);
    for work in works.iter().filter(|work| !work.anew || peer.remounts()) {
        let sample = session.measure(work).map_err(|why| format!("{}: {why}", work.name))?;
        sum += sample.value;
        jobs &= sample.unit == "s";
        outcome.told(label, sample);
    }
    if jobs {
        outcome.told(label, Sample::new("sum", peer.name, sum, "s"));
    }
    session.unmount()
}

fn arenas(
    bench: &Bench,
    figure: &Figure,
    names: &[&'static str],
    rounds: u32,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let peer = peers::named("keepfs").ok_or("no keepfs")?;
    for round in 1..=rounds {
        for name in names {
            for mib in ARENAS_MIB {
                let arena = format!("arena {mib} MiB");
                let result = one_arena(bench, figure, peer, name, mib).map(|mut sample| {
                    sample.peer.clone_from(&arena);
                    outcome.told(&format!("{} {round}/{rounds}", figure.name), sample);
                });
                note(bench, figure, &arena, result, outcome)?;
            }
        }
    }
    Ok(())
}

fn one_arena(
    bench: &Bench,
    figure: &Figure,
    peer: &'static Peer,
    name: &'static str,
    mib: u32,
) -> Result<Sample, String> {
    let option = format!("arena={mib}M");
    let mut session = Session::new(bench, peer, bench.profile(figure), &[&option])?;
    session.run(&format!("{name}-prepare"), 0.0)?;
    let work = Work {
        name,
        prepare: None,
        anew: false,
        share: 1.0,
    };
    let sample = session.measure(&work)?;
    session.unmount()?;
    Ok(sample)
}

/// Each peer with each workload twice: unmounted at once, and left mounted to be unmounted when all have been quiet.
fn unmount(bench: &Bench, figure: &Figure, chosen: &[&'static Peer], outcome: &mut Outcome) -> Result<(), String> {
    let mut waiting = Vec::new();
    for name in ["varmail", "fileserver"] {
        for peer in chosen {
            for later in [false, true] {
                let worked = worked_on(bench, figure, peer, name);
                let result = worked.and_then(|session| {
                    if later {
                        waiting.push((name, session));
                        return Ok(());
                    }
                    timed_unmount(session, &format!("{name}, at once"), outcome)
                });
                note(bench, figure, peer.name, result, outcome)?;
            }
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    println!("{}: waiting {} s", figure.name, QUIET.as_secs());
    bench.stop.wait(QUIET)?;
    for (name, session) in waiting {
        let peer = session.peer.name;
        let what = format!("{name}, after {} s", QUIET.as_secs());
        let result = timed_unmount(session, &what, outcome);
        note(bench, figure, peer, result, outcome)?;
    }
    Ok(())
}

fn worked_on<'b>(bench: &'b Bench, figure: &Figure, peer: &'static Peer, name: &str) -> Result<Session<'b>, String> {
    let session = Session::new(bench, peer, bench.profile(figure), &[])?;
    session.run(&format!("{name}-prepare"), 0.0)?;
    // Without the sync at the end: what an unmount has to do is what is measured.
    session.run(&format!("{name}-unsynced"), 1.0)?;
    Ok(session)
}

fn timed_unmount(mut session: Session<'_>, what: &str, outcome: &mut Outcome) -> Result<(), String> {
    let start = Instant::now();
    session.unmount()?;
    let sample = Sample::new(what, session.peer.name, start.elapsed().as_secs_f64(), "s");
    outcome.told("unmount", sample);
    Ok(())
}

/// Files of 64 MiB and many small ones; then the server is killed, and the time of the next mount counts.
fn recovery(bench: &Bench, figure: &Figure, peer: &'static Peer, outcome: &mut Outcome) -> Result<(), String> {
    for (name, prepare) in [("fill", None), ("create", Some("single-prepare"))] {
        let mut session = Session::new(bench, peer, bench.profile(figure), &[])?;
        let work = Work {
            name,
            prepare,
            anew: false,
            share: 5.0,
        };
        let done = session.measure(&work)?;
        session.kill()?;
        let start = Instant::now();
        session.mount()?;
        let seconds = start.elapsed().as_secs_f64();
        let what = match name {
            "fill" => format!(
                "mount after kill -9, {:.1} GiB written",
                done.get("bytes").unwrap_or_default() / f64::from(1 << 30)
            ),
            _ => format!(
                "mount after kill -9, {} files made",
                done.get("operations").unwrap_or_default()
            ),
        };
        let mut sample = Sample::new(&what, peer.name, seconds, "s");
        let checkpoints = done.get("checkpoints").unwrap_or_default();
        sample.more.insert("checkpoints".into(), checkpoints);
        outcome.told(figure.name, sample);
        session.unmount()?;
    }
    Ok(())
}

/// The output of a program that gets a directory of its own.
fn output_in_scratch(bench: &Bench, program: &std::path::Path, args: &[&str]) -> Result<String, String> {
    let scratch = xtask::sweep::Scratch::within(bench.programs.scratch())?;
    let image = scratch.path().join("pool");
    let mut program = Programs::in_process(program, scratch.path());
    program.args(args).arg(&image).env("TMPDIR", scratch.path());
    limited(&mut program, Duration::from_secs(900), &bench.stop)
}
