//! Release builds of the workspace's programs.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::process::{command, output};
use crate::paths;

/// Builds the `keepfs` command and says where it is.
pub fn keepfs() -> Result<PathBuf, String> {
    release("keepfs", "keepfs")
}

/// Builds the `keepfs` command whose servers can be made to misbehave, beside the one that is shipped, and says where it is.
pub fn planted() -> Result<PathBuf, String> {
    let mut cargo = command("cargo", &paths::root());
    cargo.args(["build", "--quiet", "--package", "keepfs", "--bin", "keepfs"]);
    cargo.args(["--features", "planted", "--target-dir"]);
    finish(cargo.arg(paths::target().join("planted")), "keepfs")
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
