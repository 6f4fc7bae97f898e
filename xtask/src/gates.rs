//! Stages that lean on a tool which may not be there: cargo-deny, Miri. They run it, or skip with the reason.

use std::process::{Command, ExitCode};

use crate::run::SKIPPED;

/// Packages whose unsafe code Miri can execute (no system calls that it does not know).
const MIRI: &[&str] = &["keepfs-codes"];

/// `cargo xtask deny`: licences, advisories, sources and duplicates by deny.toml.
pub fn deny() -> Result<ExitCode, String> {
    if !answers(&["deny", "--version"]) {
        return skip("cargo-deny is not installed (cargo install --locked cargo-deny)");
    }
    cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])
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
