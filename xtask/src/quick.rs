//! `cargo xtask changed`: the tests of the packages that were changed, the quick ring's part of all tests.

use crate::paths;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Packages whose tests mount, for minutes: of them the quick ring runs what needs no mount.
const MOUNTING: [&str; 2] = ["keepfs", "keepfs-fuse"];

/// Orders of turns that each search by turns goes through in the quick ring; a whole run goes through all.
const ORDERS: &str = "100";

/// Tests what differs from the last commit; if nothing does, what the last commit changed.
pub fn changed() -> Result<ExitCode, String> {
    let uncommitted = files(&["status", "--porcelain", "--no-renames", "-uall"], 3)?;
    let files = match uncommitted.is_empty() {
        true => files(&["diff", "--name-only", "--no-renames", "HEAD~1", "HEAD"], 0)?,
        false => uncommitted,
    };
    let packages = packages(&files);
    if packages.is_empty() {
        println!("no package was changed");
        return Ok(ExitCode::SUCCESS);
    }
    for (package, folder) in &packages {
        let has_library = paths::root().join(folder).join("src/lib.rs").exists();
        let mut test = Command::new("cargo");
        test.args(["test", "--quiet", "-p", package])
            .env("KEEPFS_ORDERS", ORDERS);
        match MOUNTING.contains(&package.as_str()) {
            true if has_library => _ = test.args(["--lib", "--bins"]),
            true => _ = test.arg("--bins"),
            false => {}
        }
        let status = test.current_dir(paths::root()).status();
        if !status.map_err(|e| format!("cargo: {e}"))?.success() {
            println!("the tests of {package} failed");
            return Ok(ExitCode::FAILURE);
        }
    }
    let names: Vec<&str> = packages.keys().map(String::as_str).collect();
    println!("tested: {}", names.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// The lines that git(1) prints, without what stands before the names.
fn files(args: &[&str], before: usize) -> Result<Vec<String>, String> {
    let output = Command::new("git").args(args).current_dir(paths::root()).output();
    let output = output.map_err(|e| format!("git: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.get(before..))
        .map(str::to_owned)
        .collect())
}

/// The packages that `files` belong to, by name, with their folders.
fn packages(files: &[String]) -> BTreeMap<String, PathBuf> {
    let manifest = |folder: &Path| std::fs::read_to_string(paths::root().join(folder).join("Cargo.toml")).ok();
    let package = |file: &String| {
        let mut folders = Path::new(file).ancestors().skip(1);
        folders.find_map(|folder| Some((name(&manifest(folder)?)?, folder.to_owned())))
    };
    files.iter().filter_map(package).collect()
}

/// The package's name in a manifest; none in that of a workspace alone.
fn name(manifest: &str) -> Option<String> {
    let (_, package) = manifest.split_once("[package]")?;
    let line = package.lines().find_map(|line| line.strip_prefix("name = \""))?;
    line.strip_suffix('"').map(str::to_owned)
}

#[cfg(test)]
mod tests;
