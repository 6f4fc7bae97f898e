//! Runs the stages of `cargo xtask test` and counts them.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::stages::{STAGES, Stage};
use crate::{paths, sweep};

/// Exit code of a stage that could not run here and says why in its last line (as in automake).
pub const SKIPPED: u8 = 77;

/// Lines of a failed stage's log that are printed.
const TAIL: usize = 40;

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

/// `cargo xtask test` with the arguments after `test`. The last line is `N passed, N failed`.
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
    run_all(&chosen, choice.long)
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

fn run_all(stages: &[&Stage], long: bool) -> Result<ExitCode, String> {
    let start = Instant::now();
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), Vec::new());
    for stage in stages {
        print!("{:<12} ", stage.name);
        std::io::stdout().flush().map_err(|e| e.to_string())?;
        let begin = Instant::now();
        let outcome = run(stage, long)?;
        let seconds = begin.elapsed().as_secs_f64();
        match outcome {
            Outcome::Passed => {
                passed += 1;
                println!("ok      {seconds:7.1} s  {}", last_line(stage.name));
            }
            Outcome::Skipped => {
                skipped.push(stage.name);
                println!("skipped {seconds:7.1} s  {}", last_line(stage.name));
            }
            Outcome::Failed(why) => {
                failed.push(stage.name);
                println!(
                    "FAILED  {seconds:7.1} s  {why}; the end of {}:",
                    paths::log(stage.name).display()
                );
                println!("{}", tail(&log_text(stage.name), TAIL));
            }
        }
    }
    println!("\n{} stages in {:.0} s", stages.len(), start.elapsed().as_secs_f64());
    for (names, word) in [(&skipped, "skipped"), (&failed, "failed")] {
        if !names.is_empty() {
            println!("{word}: {}", names.join(", "));
        }
    }
    println!("{passed} passed, {} failed", failed.len());
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs one stage with its output in its log and a directory for temporary files of its own, which is cleared of
/// mounts and loop devices afterwards whatever the stage left behind.
fn run(stage: &Stage, long: bool) -> Result<Outcome, String> {
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
        .env(LONG, if long { "1" } else { "0" });
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

fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(count);
    lines[start..]
        .iter()
        .map(|line| format!("    | {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests;
