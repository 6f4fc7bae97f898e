//! `keepfs scrub`: asks a server to look at everything, in memory and on its device, and tells how far it is.

mod args;
mod text;

pub use args::Scrub;

use super::json;
use super::tell::warn_of;
use args::{Start, Verb};
use keepfs_server::question::{Question, Told};
use keepfs_server::registry::Record;
use keepfs_server::scrub::Report;
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, Outcome, control, history, unserved};
use serde::de::DeserializeOwned;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// It could not be done.
const FAILED: u8 = 1;
/// There was nothing to resume.
const NOTHING: u8 = 2;
/// Something is damaged and cannot be mended.
const UNCORRECTABLE: u8 = 3;
/// How often one who waits asks.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Does what was asked.
pub fn run(args: &Scrub) -> Outcome {
    match &args.verb {
        Verb::Start(start) => self::start(start),
        Verb::Status { of, json } => show(&of.dir, *json),
        Verb::Pause { of } => told(&of.dir, &Question::ScrubPause),
        Verb::Resume { of, wait } => match told(&of.dir, &Question::ScrubResume)? {
            0 if *wait => wait_for(&of.dir, false),
            code => Ok(code),
        },
        Verb::Cancel { of } => told(&of.dir, &Question::ScrubCancel),
        Verb::Limit { of, rate } => told(&of.dir, &Question::ScrubLimit(rate.map_or(0, |rate| rate.0))),
    }
}

fn start(start: &Start) -> Outcome {
    if start.path.is_some() {
        // The kernel would wait for its server without a limit when the path is looked at.
        alive(&server(&start.of.dir)?)?;
    }
    let code = told(&start.of.dir, &question(start)?)?;
    match code {
        0 if start.wait => wait_for(&start.of.dir, start.json),
        code => Ok(code),
    }
}

/// The question that begins a scrub.
fn question(start: &Start) -> Result<Question, Failure> {
    let mut words = Vec::new();
    words.extend((!start.rest).then(|| "arena".to_owned()));
    words.extend((!start.arena).then(|| "rest".to_owned()));
    words.extend(start.damaged.then(|| "damaged".to_owned()));
    if let Some(since) = &start.since {
        words.push(format!("since={}", text::seconds(since)?));
    }
    if let Some(path) = &start.path {
        let found = std::fs::symlink_metadata(path).map_err(Failure::io("look at", path))?;
        words.push(format!("top={}", found.ino()));
    }
    words.extend(start.order.map(|order| order.word().to_owned()));
    if let Some((from, to)) = start.addresses {
        words.push(format!("at={from}-{to}"));
    }
    Ok(Question::ScrubStart(words.join(" ")))
}

/// The server of a mount.
pub fn server(dir: &Path) -> Result<Record, Failure> {
    match history::server_of(dir)? {
        Some(record) => Ok(record),
        None => unserved::server_at(dir).map(|(_, record)| record),
    }
}

/// Before the kernel is called on a mount. Errors: its server hangs.
pub fn alive(record: &Record) -> Result<(), Failure> {
    control::alive(record).map_err(|e| Failure::Other(format!("{}: {e}", record.dir.shown())))
}

/// Asks the server of a mount.
pub fn ask<T: DeserializeOwned>(dir: &Path, question: &Question) -> Result<T, Failure> {
    let record = server(dir)?;
    let ask = match question {
        Question::ScrubStatus => control::ask_soon,
        _ => control::ask,
    };
    ask(&record, question).map_err(|e| Failure::Other(format!("{}: {e}", record.dir.shown())))
}

/// Tells the server something; says what it says if it refuses.
fn told(dir: &Path, question: &Question) -> Outcome {
    let told: Told = ask(dir, question)?;
    match told.error {
        None => Ok(0),
        Some(error) if told.nothing == Some(true) => {
            warn_of!("keepfs: {}: {error}", dir.shown());
            Ok(NOTHING)
        }
        Some(error) => Err(Failure::Other(format!("{}: {error}", dir.shown()))),
    }
}

fn report(dir: &Path) -> Result<Report, Failure> {
    ask(dir, &Question::ScrubStatus)
}

fn show(dir: &Path, json: bool) -> Outcome {
    let report = report(dir)?;
    print(&report, json)?;
    Ok(code(&report))
}

fn code(report: &Report) -> u8 {
    match report.uncorrectable() {
        0 => 0,
        _ => UNCORRECTABLE,
    }
}

fn print(report: &Report, json: bool) -> Result<(), Failure> {
    if json {
        let text = json::text(report)?;
        println!("{text}");
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        print!("{}", text::of(report, now.map_or(0, |now| now.as_secs() as i64)));
    }
    Ok(())
}

fn wait_for(dir: &Path, json: bool) -> Outcome {
    loop {
        let report = report(dir)?;
        if report.state != "running" {
            print(&report, json)?;
            return match report.state.as_str() {
                "finished" => Ok(code(&report)),
                _ => Ok(FAILED),
            };
        }
        std::thread::sleep(ASK_EVERY);
    }
}
