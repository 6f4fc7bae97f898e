//! Stages that lean on a tool which may not be there: cargo-deny, Miri, and a target without an operating system. The latter
//! two are installed where rustup can.

use std::process::{Command, ExitCode};

use crate::licences;
use crate::run::SKIPPED;

/// Packages whose unsafe code Miri can execute (no system calls that it does not know).
const MIRI: &[&str] = &["keepfs-codes"];

/// `cargo xtask deny`: licences and sources by deny.toml, and cargo-deny's other checks where it is installed.
pub fn deny() -> Result<ExitCode, String> {
    let (packages, refusals) = licences::check()?;
    for refusal in &refusals {
        println!("{refusal:?}");
    }
    if !refusals.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if answers(&["deny", "--version"]) {
        return cargo(&["deny", "check", "bans", "licenses", "sources"]);
    }
    println!(
        "licences and sources of {packages} packages are allowed (cargo-deny, which checks more, is not installed)"
    );
    Ok(ExitCode::SUCCESS)
}

/// What Miri needs of the nightly toolchain: itself, and the sources of the standard library.
const MIRI_PARTS: &[&str] = &["miri", "rust-src"];

/// `cargo xtask miri`: the tests of the packages that Miri can run.
pub fn miri() -> Result<ExitCode, String> {
    if let Err(why) = have_miri() {
        return skip(&format!("Miri is not installed: {why}"));
    }
    let mut args = vec!["+nightly", "miri", "test"];
    args.extend(MIRI.iter().flat_map(|package| ["-p", package]));
    cargo(&args)
}

/// Installs what Miri needs, unless it is there. Errors: why that cannot be.
fn have_miri() -> Result<(), String> {
    let parts = MIRI_PARTS.join(",");
    // One of a certain day is another toolchain.
    if !rustup_lists(&["toolchain", "list"], &format!("nightly-{}", std::env::consts::ARCH)) {
        return rustup(&["toolchain", "install", "nightly", "--profile", "minimal", "-c", &parts]);
    }
    let installed = ["component", "list", "--toolchain", "nightly", "--installed"];
    if MIRI_PARTS.iter().all(|part| rustup_lists(&installed, part)) {
        return Ok(());
    }
    rustup(&[&["component", "add", "--toolchain", "nightly"], MIRI_PARTS].concat())
}

/// Packages that kernels and firmware may share: no_std, no allocation.
const BARE: &[&str] = &["keepfs-codes"];
/// A target without operating system, standard library and SSE.
const BARE_TARGET: &str = "x86_64-unknown-none";

/// `cargo xtask bare`: builds the packages of `BARE` for a target without an operating system.
pub fn bare() -> Result<ExitCode, String> {
    if !rustup_lists(&["target", "list", "--installed"], BARE_TARGET)
        && let Err(why) = rustup(&["target", "add", BARE_TARGET])
    {
        return skip(&format!("the target {BARE_TARGET} is not installed: {why}"));
    }
    let mut args = vec!["build", "--target", BARE_TARGET];
    args.extend(BARE.iter().flat_map(|package| ["-p", package]));
    cargo(&args)
}

/// Most seconds that rustup may take to install something.
const INSTALL_MAX: u32 = 120;

/// Whether a line of what rustup lists begins with `part`.
fn rustup_lists(args: &[&str], part: &str) -> bool {
    let listed = Command::new("rustup").args(args).output();
    listed.is_ok_and(|output| has_line(&String::from_utf8_lossy(&output.stdout), part))
}

fn has_line(text: &str, start: &str) -> bool {
    text.lines().any(|line| line.starts_with(start))
}

/// Has rustup install something. Errors: why it could not.
fn rustup(args: &[&str]) -> Result<(), String> {
    within(INSTALL_MAX, &[&["rustup"], args].concat())
}

/// Runs a command that is stopped after so many seconds. Errors say how it ended.
fn within(seconds_max: u32, command: &[&str]) -> Result<(), String> {
    let line = command.join(" ");
    println!("{line}");
    let seconds = seconds_max.to_string();
    let status = Command::new("timeout").arg(&seconds).args(command).status();
    match status.map_err(|e| format!("timeout: {e}"))?.code() {
        Some(0) => Ok(()),
        Some(124) => Err(format!("`{line}` was stopped after {seconds} s")),
        Some(127) => Err(format!("`{line}`: there is no such program")),
        _ => Err(format!("`{line}` failed")),
    }
}

fn answers(args: &[&str]) -> bool {
    Command::new("cargo")
        .args(args)
        .output()
        .is_ok_and(|output| output.status.success())
}

fn cargo(args: &[&str]) -> Result<ExitCode, String> {
    let status = Command::new("cargo")
        .args(args)
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Says why a stage cannot run here.
pub fn skip(why: &str) -> Result<ExitCode, String> {
    println!("skipped: {why}");
    Ok(ExitCode::from(SKIPPED))
}

#[cfg(test)]
mod tests;
