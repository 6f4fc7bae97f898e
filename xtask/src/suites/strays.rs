//! An outsider who writes into the memory of servers under real programs (lab/src/strays.rs).

use std::path::PathBuf;

use super::process::{command, output, said};
use super::{Bench, build};
use crate::{install, paths};

/// Twenty runs of 400 strays: every code at every guard that machines without protection keys have.
pub fn run(bench: &Bench) -> Result<String, String> {
    call(bench, &["--seeds", "20", "--rates", "40-100"])
}

/// The size of R-9.
pub fn long(bench: &Bench) -> Result<String, String> {
    call(
        bench,
        &["--seeds", "1000", "--first", "1000", "--rates", "10-100", "--jobs", "8"],
    )
}

/// The judge is judged: what is planted behind its back it must name.
pub fn planted(bench: &Bench) -> Result<String, String> {
    call(bench, &["--planted"])
}

fn call(bench: &Bench, more: &[&str]) -> Result<String, String> {
    install::programs()?;
    if bench.dir.is_some() {
        return Err("needs a server to write into; runs on pools only".into());
    }
    let (keepfs, strays) = (build::keepfs()?, build::lab("strays")?);
    let logs: PathBuf = paths::target().join("strays");
    let mut program = command(&strays, &paths::root());
    program
        .arg("--keepfs")
        .arg(&keepfs)
        .arg("--dir")
        .arg(bench.scratch.path());
    program.arg("--logs").arg(&logs).args(more);
    let told = output(&mut program)?;
    if !told.status.success() {
        return Err(format!(
            "{} (logs of strays: {})",
            said(&program, &told),
            logs.display()
        ));
    }
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    print!("{text}");
    Ok(text.lines().last().unwrap_or_default().to_owned())
}
