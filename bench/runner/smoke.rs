//! The stage `bench` of the tests: every workload runs on Keepfs for a moment, has its figures, and Keepfs counts what the
//! kernel counts.

use std::process::ExitCode;

use super::device::Profile;
use super::figure::{EVERYDAY, FIGURES, Figure, Kind, Work};
use super::run::Teller;
use super::sample::{Sample, rounds};
use super::session::{Bench, Session};
use super::table::own_difference;
use super::{papers, peers, run};
use xtask::install;

/// Seconds of a workload.
const SECONDS: f64 = 1.0;
/// How far Keepfs's own count of bytes and flushes may be from the kernel's.
const DIFFERENCE: f64 = 0.01;
/// Writes so few bytes that a page is more than the difference allowed.
const LITTLE: f64 = 1_000_000.0;

/// Runs it. Figures are printed, nothing is stored.
pub fn run(mut bench: Bench) -> Result<ExitCode, String> {
    (bench.seconds, bench.percent, bench.device_mib) = (SECONDS, Some(5), 2 << 10);
    let peer = peers::named("keepfs").ok_or("no keepfs")?;
    let mut done: Vec<&str> = Vec::new();
    let mut total = Sample::new("all", "keepfs", 0.0, "op/s");
    // The programs of every day have a test of their own, and what they need is not on every machine.
    let own = |figure: &&Figure| {
        figure.profile == Profile::None && figure.name != EVERYDAY && papers::of(figure.name).is_none()
    };
    for figure in FIGURES.iter().filter(own) {
        let Kind::Works(works) = &figure.kind else { continue };
        if works.iter().all(|work| done.contains(&work.name)) {
            continue;
        }
        // Past the page cache, where a page that is written again in time reaches the device once (decision 0421).
        let mut session = Session::new(&bench, peer, figure.profile, &["io=direct"])?;
        for work in *works {
            let sample = measure(&mut session, work)?;
            for name in ["written", "flushes", "own_written", "own_flushes"] {
                *total.more.entry(name.into()).or_default() += sample.get(name).unwrap_or_default();
            }
            done.push(work.name);
        }
        session.unmount()?;
    }
    modelled(&bench)?;
    others(&mut bench)?;
    let least = judge(&total, 0.0)?;
    println!(
        "{} workloads; {:.0} MB and {:.0} flushes by the kernel's count, own count {least:+.2} %",
        done.len(),
        total.get("written").unwrap_or_default() / 1e6,
        total.get("flushes").unwrap_or_default(),
    );
    Ok(ExitCode::SUCCESS)
}

fn measure(session: &mut Session<'_>, work: &Work) -> Result<Sample, String> {
    let sample = session.measure(work)?;
    println!("{}: {:.1} {}", work.name, sample.value, sample.unit);
    if sample.value <= 0.0 || sample.get("p99_us").is_none_or(|us| us <= 0.0) {
        return Err(format!("{} has no figures: {sample:?}", work.name));
    }
    judge(&sample, LITTLE)?;
    Ok(sample)
}

/// Percent that the own count of bytes differs by. Errors: bytes or flushes differ too much; a sample with fewer than
/// `little` bytes is not judged.
fn judge(sample: &Sample, little: f64) -> Result<f64, String> {
    let get = |name: &str| sample.get(name).unwrap_or_default();
    let all = [sample.clone()];
    let difference = rounds(&all).first().and_then(own_difference).unwrap_or_default();
    let flushes = get("own_flushes") - get("flushes");
    let wrong = difference.abs() > DIFFERENCE || flushes.abs() > (DIFFERENCE * get("flushes")).max(1.0);
    match wrong && get("written") >= little {
        true => Err(format!(
            "{}: the kernel counted {} bytes and {} flushes, keepfs {} and {}",
            sample.workload,
            get("written"),
            get("flushes"),
            get("own_written"),
            get("own_flushes")
        )),
        false => Ok(100.0 * difference),
    }
}

/// Figures of other kinds, as small as can be: each gives rows on Keepfs and, where it stands beside others, on ext4.
fn others(bench: &mut Bench) -> Result<(), String> {
    (bench.seconds, bench.rounds, bench.percent) = (0.2, 1, Some(1));
    for figure in FIGURES {
        let small = match figure.kind {
            Kind::InProcess | Kind::Where(_) | Kind::Huge => true,
            // Planted bugs and injections have stages of their own.
            Kind::Told(tellers) => tellers.iter().all(|teller| matches!(teller, Teller::Papers(_))),
            _ => papers::of(figure.name).is_some(),
        };
        if !small {
            continue;
        }
        let outcome = run::figure(bench, figure, &["keepfs", "ext4", "log-only"])?;
        let not_there = |peer: &str| peers::named(peer).is_some_and(|peer| peer.missing().is_some());
        let profiler = matches!(figure.kind, Kind::Where(_)) && !install::present("perf");
        match outcome
            .missing
            .iter()
            .find(|missing| !profiler && !not_there(&missing.peer))
        {
            Some(missing) => return Err(format!("{}: {}: {}", figure.name, missing.peer, missing.why)),
            None if outcome.samples.is_empty() && !profiler => return Err(format!("{} has no rows", figure.name)),
            None => println!("{}: {} rows", figure.name, rounds(&outcome.samples).len()),
        }
    }
    Ok(())
}

/// On the modelled SSD an fsync costs its flush, and what the loop device counts reaches the model.
fn modelled(bench: &Bench) -> Result<(), String> {
    let ext4 = peers::named("ext4").filter(|ext4| ext4.missing().is_none());
    for peer in peers::named("keepfs").into_iter().chain(ext4) {
        let mut session = Session::new(bench, peer, Profile::Ssd, &[])?;
        let create = Work {
            name: "create",
            prepare: Some("single-prepare"),
            anew: false,
            share: 1.0,
        };
        let sample = session.measure(&create)?;
        session.unmount()?;
        let get = |name: &str| sample.get(name).unwrap_or_default();
        println!(
            "create on the modelled SSD, {}: {:.0} op/s, fsync {:.0} us",
            peer.name,
            sample.value,
            get("fsync_p50_us")
        );
        if get("fsync_p50_us") < 1000.0 {
            return Err(format!(
                "{}: an fsync is faster than a flush of the model: {sample:?}",
                peer.name
            ));
        }
        let (here, there) = (get("flushes"), get("modelled_flushes"));
        if here <= 0.0 || (here - there).abs() > 1.0 || get("modelled_written") < get("written") {
            return Err(format!(
                "{}: not all of the loop device's requests reach the model: {sample:?}",
                peer.name
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
