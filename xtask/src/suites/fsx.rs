//! fsx: random operations on one file, every byte compared, all 14 operations (BARS R-2).

use std::path::Path;
use std::process::Command;

use super::process::{command, output, said};
use super::{Bench, Place};
use crate::{install, paths};

/// Seeds 1 to this.
const SEEDS: u32 = 10;

/// All operations have a weight, so one that the file system refuses is a failure. (No operation of no bytes: fsx would
/// take the EINVAL of posix_fallocate(3) for a failure.)
pub const CONFIG: &str = "flen = 1048576

[opsize]
min = 1
max = 131072
align = 1

[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 2
sendfile = 2
posix_fadvise = 1
copy_file_range = 2
";

/// The two ways the kernel hands writes over.
const CACHES: &[&str] = &["writeback", "writethrough"];

/// Runs every seed with and without the kernel's writeback cache, the two side by side.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::suites()?;
    let config = bench.scratch.path().join("fsx.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let operations = if bench.long { 100_000 } else { 10_000 };
    let config = config.as_path();
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let run = |cache: &'static str| scope.spawn(move || with_cache(bench, cache, config, operations));
        let threads: Vec<_> = CACHES.iter().copied().map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("panicked".into())))
            .collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    Ok(format!(
        "fsx: {SEEDS} seeds x {operations} operations, cache={}: 0 mismatches",
        CACHES.join(" and ")
    ))
}

fn with_cache(bench: &Bench, cache: &str, config: &Path, operations: u32) -> Result<(), String> {
    let place = bench.place(cache, 256, &[&format!("cache={cache}")])?;
    for seed in 1..=SEEDS {
        one(&place, cache, config, operations, seed)?;
    }
    place.close()
}

fn one(place: &Place, cache: &str, config: &Path, operations: u32, seed: u32) -> Result<(), String> {
    let artifacts = paths::target()
        .join("xtask")
        .join(format!("fsx-{cache}-{seed}-{}", std::process::id()));
    std::fs::create_dir_all(&artifacts).map_err(|e| format!("{}: {e}", artifacts.display()))?;
    let mut fsx: Command = command(paths::tools().join("bin/fsx"), place.dir());
    fsx.arg("-f")
        .arg(config)
        .args(["-N", &operations.to_string(), "-S", &seed.to_string(), "-P"]);
    let output = output(fsx.arg(&artifacts).arg(place.dir().join(format!("seed{seed}"))))?;
    if !output.status.success() {
        return Err(format!(
            "cache={cache}, its files are in {}: {}",
            artifacts.display(),
            said(&fsx, &output)
        ));
    }
    std::fs::remove_dir_all(&artifacts).map_err(|e| format!("{}: {e}", artifacts.display()))
}

#[cfg(test)]
mod tests;
