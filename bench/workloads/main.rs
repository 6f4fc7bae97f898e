//! Workloads of `cargo xtask bench`: `bench WORKLOAD DIR SECONDS [PERCENT]` works in DIR and prints one line of JSON.
//!
//! The device's counters are read by the caller, before and after; here operations and time are counted. Whatever was
//! measured is synced at the end, so that the counters have all of it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

mod blocks;
mod everyday;
mod figures;
mod fileset;
mod metadata;
mod personality;
mod random;
mod single;

use figures::Done;
use personality::Personality;

/// Jobs with an end: the sync is part of their time.
const JOBS: [&str; 3] = ["append10", "append1000", "delete"];

/// Prepares what a workload needs (`…-prepare`, not measured), or measures.
fn dispatch(workload: &str, dir: &Path, time: Duration, percent: Option<usize>) -> io::Result<Done> {
    if let Some(personality) = Personality::named(workload) {
        return personality.run(dir, time, percent);
    }
    if let Some(name) = workload.strip_suffix("-prepare")
        && let Some(personality) = Personality::named(name)
    {
        return personality.prepare(dir, percent);
    }
    if let Some(files) = workload.strip_prefix("metadata-") {
        return metadata::run(dir, files, percent);
    }
    if everyday::is_one(workload) {
        return everyday::job(workload, dir, percent);
    }
    match workload {
        "everyday-prepare" => everyday::prepare(percent),
        "pgbench-prepare" => everyday::prepare_pgbench(dir, percent),
        "single-prepare" => {
            single::prepare_dirs(dir)?;
            single::prepare_files(dir, "files", percent)
        }
        "delete-prepare" => single::prepare_files(dir, "deleted", percent),
        "random-prepare" => blocks::prepare_random(dir),
        "create" => single::create(dir, time),
        "append10" => single::append(dir, time, 10),
        "append1" => single::append(dir, time, 1),
        "append1000" => single::append(dir, time, 1000),
        "delete" => single::delete(dir, percent),
        "bare-create" => single::bare_create(dir, time),
        "stat" => single::stat(dir, time, percent),
        "open" => single::open(dir, time, percent),
        "rename" => single::rename(dir, time),
        "unlink" => single::unlink(dir, time),
        "read4k" => blocks::read_random(dir, time),
        "write4k" => blocks::write_random(dir, time),
        "write" => blocks::write(dir, percent),
        "fill" => blocks::fill(dir, percent),
        "read" | "reread" => blocks::read(dir, percent),
        other => Err(io::Error::other(format!("no workload {other}"))),
    }
}

/// The workload, and syncfs(2) behind it, unless it is called `…-unsynced`.
fn run(workload: &str, dir: &Path, time: Duration, percent: Option<usize>) -> io::Result<Done> {
    if let Some(workload) = workload.strip_suffix("-unsynced") {
        return dispatch(workload, dir, time, percent);
    }
    let mut done = dispatch(workload, dir, time, percent)?;
    let start = Instant::now();
    rustix::fs::syncfs(File::open(dir)?)?;
    done.sync_seconds = start.elapsed().as_secs_f64();
    if JOBS.contains(&workload) {
        done.seconds += done.sync_seconds;
    }
    Ok(done)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (workload, dir, seconds, percent) = match args.as_slice() {
        [workload, dir, seconds] => (workload, dir, seconds, None),
        [workload, dir, seconds, percent] => (workload, dir, seconds, percent.parse().ok()),
        _ => {
            eprintln!("usage: bench WORKLOAD DIR SECONDS [PERCENT]");
            return ExitCode::from(2);
        }
    };
    let time = seconds.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    let time = time.unwrap_or(Duration::from_secs(5));
    match run(workload, Path::new(dir), time, percent) {
        Ok(done) => {
            println!("{}", done.json());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{workload}: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
