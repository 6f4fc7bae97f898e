//! Release builds of the workspace's programs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::{command, output, run};
use crate::paths;

/// Builds the `keepfs` command and says where it is.
pub fn keepfs() -> Result<PathBuf, String> {
    release("keepfs", "keepfs")
}

/// Builds the `keepfs` command, and says each second how far that is.
pub fn keepfs_told(tell: &mut dyn FnMut(&Progress)) -> Result<PathBuf, String> {
    let mut cargo = command("cargo", &paths::root());
    cargo.args([
        "build",
        "--release",
        "--quiet",
        "--package",
        "keepfs",
        "--bin",
        "keepfs",
    ]);
    cargo
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped());
    let mut progress = Progress {
        done: 0,
        all: packages(),
        last: String::new(),
        seconds: 0,
    };
    let start = Instant::now();
    let mut child = cargo.spawn().map_err(|e| format!("cargo: {e}"))?;
    let told = child.stdout.take().ok_or("cargo has no standard output")?;
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let lines = BufReader::new(told).lines().map_while(Result::ok);
        lines
            .map(|line| sender.send(line))
            .take_while(Result::is_ok)
            .for_each(drop);
    });
    let mut found = None;
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                found = executable(&line).or(found);
                if let Some(name) = compiled(&line) {
                    (progress.done, progress.last) = (progress.done + 1, name);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.seconds = start.elapsed().as_secs();
        tell(&progress);
    }
    // It ended with the lines.
    drop(reader.join());
    let status = child.wait().map_err(|e| format!("cargo: {e}"))?;
    match found.filter(|_| status.success()) {
        Some(program) => Ok(program),
        None => Err(format!("cargo build of keepfs: {status} (its messages stand above)")),
    }
}

/// How far a build is.
pub struct Progress {
    /// Units that are built, or were.
    pub done: usize,
    /// About how many there are.
    pub all: usize,
    /// The last one.
    pub last: String,
    /// Since it began.
    pub seconds: u64,
}

/// About how many units a build of keepfs has: its packages, as many of them have build scripts and macros of their own. 0: unknown.
fn packages() -> usize {
    let mut tree = command("cargo", &paths::root());
    tree.args([
        "tree",
        "--package",
        "keepfs",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    let told = output(&mut tree).map(|told| told.stdout).unwrap_or_default();
    let told = String::from_utf8_lossy(&told);
    let words = told
        .lines()
        .map(|line| line.split_once(" (").map_or(line, |(name, _)| name));
    words.collect::<BTreeSet<_>>().len()
}

/// The name of the unit that a line of cargo's messages says is built.
fn compiled(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_unit = message["reason"] == "compiler-artifact" && message["target"]["kind"][0] != "custom-build";
    is_unit.then(|| message["target"]["name"].as_str().unwrap_or_default().to_owned())
}

/// Builds the `keepfs` command whose servers can be made to misbehave, beside the one that is shipped, and says where it is.
pub fn planted() -> Result<PathBuf, String> {
    let mut cargo = command("cargo", &paths::root());
    cargo.args(["build", "--quiet", "--package", "keepfs", "--bin", "keepfs"]);
    cargo.args(["--features", "planted", "--target-dir"]);
    finish(cargo.arg(paths::target().join("planted")), "keepfs")
}

/// The last commit, or the one before it if nothing has changed since. Errors: git(1) knows none.
pub fn last_commit() -> Result<String, String> {
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let which = if changed.is_empty() { "HEAD~1" } else { "HEAD" };
    Ok(git(&["rev-parse", "--short", "--verify", "--quiet", which])?
        .trim()
        .to_owned())
}

fn git(words: &[&str]) -> Result<String, String> {
    run(command("git", &paths::root()).args(words))
}

/// Builds the `keepfs` command of [`last_commit`] as tests are built, apart from what belongs to this tree; says where it is, and
/// which commit that is.
pub fn last() -> Result<(PathBuf, String), String> {
    let commit = last_commit()?;
    let place = paths::target().join("last");
    let source = place.join("source");
    // Files that are not in that commit must not be left.
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source).map_err(|e| format!("{}: {e}", source.display()))?;
    let archive = place.join("source.tar");
    git(&["archive", "--output", &archive.to_string_lossy(), &commit])?;
    run(command("tar", &source).arg("-xf").arg(&archive))?;
    let mut cargo = command("cargo", &source);
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "keepfs",
        "--bin",
        "keepfs",
        "--target-dir",
    ]);
    Ok((finish(cargo.arg(place.join("target")), "keepfs")?, commit))
}

/// Builds a program of the lab as the stages run those that do not measure, and says where it is.
pub fn lab(bin: &str) -> Result<PathBuf, String> {
    let mut cargo = command("cargo", &paths::root());
    cargo.args(["build", "--quiet", "--profile", "planted", "--package", "keepfs-lab"]);
    finish(cargo.args(["--features", "planted", "--bin", bin]), bin)
}

/// Builds the program `bin` of `package` and says where it is. Errors are the compiler's words.
pub fn release(package: &str, bin: &str) -> Result<PathBuf, String> {
    built(package, "--bin", bin, &[])
}

/// The same with a feature.
pub fn release_with(package: &str, bin: &str, feature: &str) -> Result<PathBuf, String> {
    built(package, "--bin", bin, &["--features", feature])
}

/// The same for an example.
pub fn example(package: &str, example: &str) -> Result<PathBuf, String> {
    built(package, "--example", example, &[])
}

/// Builds the test `name` of `package`, which is not run, and says where it is.
pub fn test(package: &str, name: &str) -> Result<PathBuf, String> {
    ready(&["test", "--no-run"], package, "--test", name, &[])
}

fn built(package: &str, kind: &str, bin: &str, more: &[&str]) -> Result<PathBuf, String> {
    ready(&["build"], package, kind, bin, more)
}

fn ready(verb: &[&str], package: &str, kind: &str, bin: &str, more: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = command("cargo", &paths::root());
    cargo.args(verb);
    cargo.args(["--release", "--quiet", "--package", package, kind, bin]);
    cargo.args(more);
    finish(&mut cargo, bin)
}

fn finish(cargo: &mut Command, bin: &str) -> Result<PathBuf, String> {
    let output = output(cargo.arg("--message-format=json-render-diagnostics"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo build of {bin} failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    executable(&messages).ok_or_else(|| format!("cargo build names no executable `{bin}`"))
}

/// The last executable that cargo's messages (JSON, one a line) name.
fn executable(messages: &str) -> Option<PathBuf> {
    messages.lines().rev().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    })
}

#[cfg(test)]
mod tests;
