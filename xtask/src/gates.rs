//! Stages that lean on a tool which may not be there: cargo-deny, Miri, and a target without an operating system.

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

/// `cargo xtask miri`: the tests of the packages that Miri can run.
pub fn miri() -> Result<ExitCode, String> {
    if !answers(&["+nightly", "miri", "--version"]) {
        return skip("Miri is not installed (rustup component add --toolchain nightly miri)");
    }
    let mut args = vec!["+nightly", "miri", "test"];
    args.extend(MIRI.iter().flat_map(|package| ["-p", package]));
    cargo(&args)
}

/// Packages that kernels and firmware may share: no_std, no allocation.
const BARE: &[&str] = &["keepfs-codes"];
/// A target without operating system, standard library and SSE.
const BARE_TARGET: &str = "x86_64-unknown-none";

/// `cargo xtask bare`: builds the packages of [`BARE`] for a target without an operating system.
pub fn bare() -> Result<ExitCode, String> {
    let installed = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let listed = installed.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(BARE_TARGET));
    if !listed {
        return skip("the target is not installed (rustup target add x86_64-unknown-none)");
    }
    let mut args = vec!["build", "--target", BARE_TARGET];
    args.extend(BARE.iter().flat_map(|package| ["-p", package]));
    cargo(&args)
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
