//! rsync: a tree with everything a tree can have goes onto the mount and is found unchanged by `--checksum`.

use std::path::Path;

use super::tar::decorate;
use crate::install;
use crate::suites::process::{command, run as call};
use crate::suites::sample::{Size, make};
use crate::suites::{Bench, compare};

/// Copies twice, then once more after a change and a deletion.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::programs()?;
    let source = bench.beside("source")?;
    make(&source, if bench.long { LONG } else { SHORT }, 2)?;
    decorate(&source)?;
    let place = bench.place("mnt", 1024, &[])?;
    let copy = place.dir().join("copy");
    let first = rsync(&source, &copy)?;
    quiet(&rsync(&source, &copy)?)?;
    let entries = compare::same(&source, &copy)?;
    let victim = source.join("part000/dir00/file000001.txt");
    std::fs::write(&victim, "changed").map_err(|e| e.to_string())?;
    std::fs::remove_file(source.join("part000/dir00/file000002.txt")).map_err(|e| e.to_string())?;
    let changes = rsync(&source, &copy)?;
    if !changes.contains("file000001.txt") || !changes.contains("deleting") {
        return Err(format!("the change was not carried over:\n{changes}"));
    }
    compare::same(&source, &copy)?;
    place.close()?;
    Ok(format!(
        "rsync: {} changes, then none, {entries} entries equal",
        first.lines().count()
    ))
}

const SHORT: Size = Size {
    files: 3_000,
    bytes: 40_000_000,
};
const LONG: Size = Size {
    files: 30_000,
    bytes: 400_000_000,
};

/// Returns the list of what was changed.
fn rsync(from: &Path, to: &Path) -> Result<String, String> {
    let mut rsync = command("rsync", from);
    rsync.args([
        "--archive",
        "--hard-links",
        "--acls",
        "--xattrs",
        "--checksum",
        "--delete",
        "--itemize-changes",
    ]);
    call(rsync.arg("./").arg(to))
}

fn quiet(changes: &str) -> Result<(), String> {
    if changes.is_empty() {
        Ok(())
    } else {
        Err(format!("the second run still changed:\n{changes}"))
    }
}
