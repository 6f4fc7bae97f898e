//! `keepfs scrub`: asks a server to look at everything, in memory and on its device, and tells how far it is.

mod args;
mod serving;
mod text;

pub use args::Scrub;
pub use serving::{answer, one_line, times};

use super::control;
use super::failure::Failure;
use super::registry::Record;
use super::visible::warn_of;
use super::{Outcome, history, unserved};
use args::{Start, Verb};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// What is known of a scrub: what programs get, and what the server answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of the answer.
    pub version: u32,
    /// Identity of the pool.
    pub id: String,
    /// `none`, `running`, `paused`, `finished`, `canceled`.
    pub state: String,
    /// What it looks at now: `arena`, `metadata`, `data`.
    pub phase: String,
    /// When it began and ended, seconds since 1970; 0: it did not.
    pub started_s: i64,
    /// As above.
    pub ended_s: i64,
    /// For how long it was under way.
    pub active_ms: u64,
    /// Seconds that it needs yet if it goes on as it went.
    pub left_s: Option<u64>,
    /// Bytes to look at, as known when it began, and looked at.
    pub total_bytes: u64,
    /// As above.
    pub done_bytes: u64,
    /// Most bytes a second; 0: no limit.
    pub limit_bytes_per_s: u64,
    /// What it found, by where.
    pub arena: Found,
    /// As above.
    pub metadata: Found,
    /// As above.
    pub data: Found,
    /// What the rounds of the arena found that never end.
    pub rounds: Found,
    /// When everything at rest was looked at last, seconds since 1970; 0: never.
    pub rest_done_s: i64,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Frames or pages looked at.
    pub pages: u64,
    /// Those that were bad.
    pub bad: u64,
    /// Those of the bad that were mended.
    pub corrected: u64,
    /// Those that cannot be.
    pub uncorrectable: u64,
}

impl Report {
    fn uncorrectable(&self) -> u64 {
        self.arena.uncorrectable + self.metadata.uncorrectable + self.data.uncorrectable
    }
}

/// Does what was asked.
pub fn run(args: &Scrub) -> Outcome {
    match &args.verb {
        Verb::Start(start) => self::start(start),
        Verb::Status { of, json } => show(&of.dir, *json),
        Verb::Pause { of } => told(&of.dir, "scrub pause"),
        Verb::Resume { of, wait } => match told(&of.dir, "scrub resume")? {
            0 if *wait => wait_for(&of.dir, false),
            code => Ok(code),
        },
        Verb::Cancel { of } => told(&of.dir, "scrub cancel"),
        Verb::Limit { of, rate } => told(&of.dir, &format!("scrub limit {}", rate.map_or(0, |rate| rate.0))),
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
fn question(start: &Start) -> Result<String, Failure> {
    let mut words = vec!["scrub start".to_owned()];
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
    Ok(words.join(" "))
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
    control::alive(record).map_err(|e| Failure::Other(format!("{}: {e}", record.dir.display())))
}

/// Asks the server of a mount.
pub fn ask(dir: &Path, question: &str) -> Result<Value, Failure> {
    let record = server(dir)?;
    let ask = match question {
        "scrub status" => control::ask_soon,
        _ => control::ask,
    };
    ask(&record, question).map_err(|e| Failure::Other(format!("{}: {e}", record.dir.display())))
}

/// Tells the server something; says what it says if it refuses.
fn told(dir: &Path, question: &str) -> Outcome {
    let answer = ask(dir, question)?;
    match answer["error"].as_str() {
        None => Ok(0),
        Some(error) => {
            warn_of!("keepfs: {}: {error}", dir.display());
            let nothing = answer["nothing"] == true;
            Ok(if nothing { NOTHING } else { FAILED })
        }
    }
}

fn report(dir: &Path) -> Result<Report, Failure> {
    let answer = ask(dir, "scrub status")?;
    serde_json::from_value(answer)
        .map_err(|e| Failure::Other(format!("{}: its server is of another version ({e})", dir.display())))
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
        let text = serde_json::to_string_pretty(report).map_err(|e| Failure::Other(e.to_string()))?;
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
