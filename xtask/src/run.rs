//! Runs the stages of `cargo xtask test` and counts them.

use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::stages::{QUICK, STAGES, Stage};
use crate::{paths, sweep};

/// Exit code of a stage that could not run here and says why in its last line (as in automake).
pub const SKIPPED: u8 = 77;

/// Stages that run beside each other at most: each wants memory and files as well.
const BESIDE_MAX: usize = 4;
/// Seconds from which on a stage stands in the table of times.
const WORTH_TELLING: f64 = 1.0;

/// A whole run has about this long, of which its last stage takes what is left: continuous integration gives it an hour.
const WHOLE: Duration = Duration::from_secs(57 * 60);

/// Lines at the end of a failed stage's log that are printed.
const TAIL: usize = 25;
/// Lines before them that name what failed, with those that follow each.
const CAUSES: usize = 60;
/// Lines that follow one that names what failed.
const FOLLOWING: usize = 5;

/// What became of a stage.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Passed,
    /// Exit code 77; the last line of its output says why.
    Skipped,
    /// Anything else, in words.
    Failed(String),
}

/// Which stages were asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Choice {
    list: bool,
    long: bool,
    only: Vec<String>,
}

/// `cargo xtask test` with the arguments after `test`. The last line is `N passed, N failed`, with `, N skipped` if any were.
pub fn command(args: &[&str]) -> Result<ExitCode, String> {
    let choice = Choice::parse(args)?;
    let chosen: Vec<&Stage> = STAGES.iter().filter(|stage| choice.takes(stage)).collect();
    if chosen.is_empty() {
        return Err(format!("no such stage; there are: {}", names(STAGES.iter())));
    }
    if choice.list {
        for stage in chosen {
            println!(
                "{:<12} at most {:>2} min   {}",
                stage.name,
                stage.minutes_max,
                stage.command.join(" ")
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    let whole = !choice.long && choice.only.is_empty();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let until = whole.then_some(now + WHOLE);
    run_all(&chosen, choice.long, until)
}

/// `cargo xtask quick`: the quick ring, told as a whole run is.
pub fn quick() -> Result<ExitCode, String> {
    run_all(&QUICK.iter().collect::<Vec<_>>(), false, None)
}

impl Choice {
    fn parse(args: &[&str]) -> Result<Self, String> {
        let mut choice = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "--list" => choice.list = true,
                "--long" => choice.long = true,
                "--only" => choice
                    .only
                    .push((*args.next().ok_or("--only needs the name of a stage")?).to_owned()),
                other => return Err(format!("unknown argument {other}; known: --long, --list, --only NAME")),
            }
        }
        Ok(choice)
    }

    fn takes(&self, stage: &Stage) -> bool {
        if self.only.is_empty() {
            self.list || self.long || !stage.long
        } else {
            self.only.iter().any(|n| n == stage.name)
        }
    }
}

fn names<'s>(stages: impl Iterator<Item = &'s Stage>) -> String {
    stages.map(|stage| stage.name).collect::<Vec<_>>().join(", ")
}

/// `until`: when the run shall have ended, since 1970.
fn run_all(stages: &[&Stage], long: bool, until: Option<Duration>) -> Result<ExitCode, String> {
    let start = Instant::now();
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !able && std::env::var_os("CI").is_some() {
        return Err(
            "without root and /dev/fuse most of the tests prove nothing; run CI as root on a machine that has it"
                .into(),
        );
    }
    let counts = Mutex::new(Counts {
        able,
        ..Counts::default()
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for together in groups(stages) {
        in_turn(together, processors.min(BESIDE_MAX), |stage| {
            if std::io::stderr().is_terminal() {
                eprintln!("running {}", stage.name);
            }
            let (outcome, seconds) = timed(stage, long, until)?;
            counts
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .tell(stage, &outcome, seconds);
            Ok(())
        })?;
    }
    let counts = counts.into_inner().unwrap_or_else(|e| e.into_inner());
    print!("{}", counts.table());
    println!("\n{} stages in {:.0} s", stages.len(), start.elapsed().as_secs_f64());
    Ok(counts.sum())
}

/// Each stage alone, but those that may run beside others together with their neighbours that may as well.
fn groups<'s, 'r>(stages: &'r [&'s Stage]) -> impl Iterator<Item = &'r [&'s Stage]> {
    stages.chunk_by(|stage, next| stage.beside && next.beside)
}

/// Runs `stages`, begun in their order, `workers` at a time. Their logs and temporary files are their own.
fn in_turn(stages: &[&Stage], workers: usize, run: impl Fn(&Stage) -> Result<(), String> + Sync) -> Result<(), String> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), String> {
        while let Some(stage) = stages.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(stage)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.min(stages.len())).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| Err("a stage's runner panicked".into())))
            .collect::<Result<Vec<()>, String>>()
            .map(drop)
    })
}

fn timed(stage: &Stage, long: bool, until: Option<Duration>) -> Result<(Outcome, f64), String> {
    let begin = Instant::now();
    let outcome = run(stage, long, until)?;
    Ok((outcome, begin.elapsed().as_secs_f64()))
}

/// Stages by their outcome.
#[derive(Default)]
struct Counts {
    passed: usize,
    skipped: Vec<&'static str>,
    failed: Vec<&'static str>,
    /// How long each took, seconds.
    times: Vec<(&'static str, f64)>,
    /// The machine has what all stages need, but for those that say what else.
    able: bool,
}

impl Counts {
    /// Counts a stage and prints its line.
    fn tell(&mut self, stage: &Stage, outcome: &Outcome, seconds: f64) {
        let name = stage.name;
        self.times.push((name, seconds));
        let skips = Skips::told(&log_text(name));
        let word = match outcome {
            Outcome::Passed if self.able && skips.able > 0 => {
                self.failed.push(name);
                println!(
                    "{name:<12} FAILED  {seconds:7.1} s  {} tests skipped for want of root or /dev/fuse, which this machine has",
                    skips.able
                );
                return;
            }
            Outcome::Passed => {
                self.passed += 1;
                "ok     "
            }
            Outcome::Skipped if self.able && stage.needs.is_none() => {
                self.failed.push(name);
                println!(
                    "{name:<12} FAILED  {seconds:7.1} s  skipped, and this machine can run it: {}",
                    last_line(name)
                );
                return;
            }
            Outcome::Skipped => {
                self.skipped.push(name);
                "skipped"
            }
            Outcome::Failed(why) => {
                self.failed.push(name);
                let log = paths::log(name);
                println!("{name:<12} FAILED  {seconds:7.1} s  {why}; of {}:", log.display());
                println!("{}", end(&log_text(name)));
                return;
            }
        };
        println!("{name:<12} {word} {seconds:7.1} s  {}{skips}", last_line(name));
    }

    /// How long each stage took, the longest first, four to a line; what took no time worth a thought is left out.
    fn table(&self) -> String {
        let mut times: Vec<_> = self
            .times
            .iter()
            .filter(|(_, seconds)| *seconds >= WORTH_TELLING)
            .collect();
        times.sort_by(|a, b| b.1.total_cmp(&a.1));
        let cell = |(name, seconds): &&(&str, f64)| format!("{seconds:7.1} s {name:<20}");
        let lines = times.chunks(4).map(|row| row.iter().map(cell).collect::<String>());
        lines.map(|line| format!("\n{}", line.trim_end())).collect::<String>() + "\n"
    }

    /// Prints the sums; the exit code.
    fn sum(&self) -> ExitCode {
        for (names, word) in [(&self.skipped, "skipped"), (&self.failed, "failed")] {
            if !names.is_empty() {
                println!("{word}: {}", names.join(", "));
            }
        }
        let skipped = match self.skipped.len() {
            0 => String::new(),
            count => format!(", {count} skipped"),
        };
        println!("{} passed, {} failed{skipped}", self.passed, self.failed.len());
        match self.failed.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}

/// Tests of a stage that passes that say they were skipped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Skips {
    all: usize,
    /// Those that need no more than what makes a machine able ([`Counts::able`]).
    able: usize,
}

impl Skips {
    /// What a log tells of them; the harness may have begun the line.
    fn told(log: &str) -> Self {
        let needs = log.lines().filter_map(|line| line.split_once("skipped: needs "));
        let mut skips = Self::default();
        for (_, what) in needs {
            skips.all += 1;
            skips.able += usize::from(what.starts_with("root") || what.starts_with("/dev/fuse"));
        }
        skips
    }
}

impl std::fmt::Display for Skips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.all {
            0 => Ok(()),
            all => write!(f, "; {all} tests skipped, its log says why"),
        }
    }
}

/// Runs one stage with its output in its log and a directory for temporary files of its own, which is cleared of
/// mounts and loop devices afterwards whatever the stage left behind.
fn run(stage: &Stage, long: bool, until: Option<Duration>) -> Result<Outcome, String> {
    let scratch = sweep::Scratch::new()?;
    let log = create_log(stage.name)?;
    let errors = log.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(stage.command[0]);
    command
        .args(&stage.command[1..])
        .current_dir(paths::root())
        .process_group(0);
    command
        .env("TMPDIR", scratch.path())
        .env(LONG, if long { "1" } else { "0" })
        .envs(until.map(|until| (UNTIL, until.as_secs().to_string())));
    // cargo sets these for the xtask itself; handed on they would make every other build look changed.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR")
    {
        command.env_remove(name);
    }
    let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
    let limit = Duration::from_secs(60 * stage.minutes_max * if long { 4 } else { 1 });
    let outcome = match child {
        Ok(child) => wait(child, limit),
        Err(e) => Outcome::Failed(format!("{}: {e}", stage.command[0])),
    };
    scratch.kill_stragglers();
    Ok(outcome)
}

/// Set to `1` for the stages of a `--long` run.
pub const LONG: &str = "KEEPFS_TEST_LONG";
/// When a whole run shall have ended, seconds since 1970: for the stage that takes what is left (the lab's `crash`).
const UNTIL: &str = "KEEPFS_TEST_UNTIL";

/// Waits for `child`, the leader of its process group, which is killed whole after `limit`.
fn wait(mut child: Child, limit: Duration) -> Outcome {
    let group = rustix::process::Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait()));
    let outcome = match ended.recv_timeout(limit) {
        Ok(Ok(status)) => outcome(status),
        Ok(Err(e)) => Outcome::Failed(format!("wait: {e}")),
        Err(_) => {
            let killed = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let how = killed.map_or_else(|e| format!("could not be killed: {e}"), |()| "was killed".to_owned());
            return Outcome::Failed(format!("hung: over its limit of {} s, {how}", limit.as_secs()));
        }
    };
    drop(waiter.join());
    outcome
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(0), _) => Outcome::Passed,
        (Some(code), _) if code == i32::from(SKIPPED) => Outcome::Skipped,
        (Some(code), _) => Outcome::Failed(format!("exit code {code}")),
        (None, signal) => Outcome::Failed(format!("signal {}", signal.unwrap_or_default())),
    }
}

fn create_log(stage: &str) -> Result<File, String> {
    let path = paths::log(stage);
    let dir = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(dir)
        .and_then(|()| File::create(&path))
        .map_err(|e| format!("{}: {e}", path.display()))
}

fn log_text(stage: &str) -> String {
    let bytes = std::fs::read(paths::log(stage)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last line with words of a stage's log, where a suite says what it counted.
fn last_line(stage: &str) -> String {
    log_text(stage)
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// What is printed of a failed stage's log: its end, and before it the lines that name what failed, which may stand far
/// above (of a test that failed among many the end tells only its package).
fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (head, tail) = lines.split_at(lines.len().saturating_sub(TAIL));
    let names = |line: &str| line.contains("panicked at") || line.ends_with("... FAILED") || line.starts_with("error");
    let mut kept = vec![false; head.len()];
    for (at, _) in head.iter().enumerate().filter(|(_, line)| names(line)) {
        let last = (at + FOLLOWING).min(head.len());
        kept[at..last].fill(true);
    }
    let causes = head.iter().zip(kept).filter(|(_, kept)| *kept).map(|(line, _)| line);
    let printed: Vec<String> = causes
        .take(CAUSES)
        .chain(tail)
        .map(|line| format!("    | {line}"))
        .collect();
    printed.join("\n")
}

#[cfg(test)]
mod tests;
