//! pjdfstest: 398 cases of POSIX semantics (BARS R-1).

use super::Bench;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::process::{command, output, said};
use crate::{install, paths};

/// Cases that may be skipped: 13 that remount read-only through fstab, and the one for small link limits.
const SKIPPED_MAX: u32 = 14;

/// `allow_remount` needs a mount that `mount -o remount` can find in fstab; read-only mounts have a test of their own.
const CONFIG: &str = r#"
[features]
posix_fallocate = {}
utime_now = {}
utimensat = {}
rename_ctime = {}
stat_st_birthtime = {}

[settings]
naptime = 0.01
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// What the suite counted.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    failed: u32,
    skipped: u32,
    passed: u32,
    total: u32,
}

/// Runs every case; an error unless none failed and no more were skipped than cannot run on FUSE.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::suites()?;
    let config = bench.scratch.path().join("pjdfstest.toml");
    std::fs::write(&config, CONFIG).map_err(|e| format!("{}: {e}", config.display()))?;
    let place = bench.place("mnt", 1024, &[])?;
    let other = elsewhere(place.dir())?;
    let mut suite = command(paths::tools().join("bin/pjdfstest"), bench.scratch.path());
    suite
        .arg("-c")
        .arg(&config)
        .arg("-p")
        .arg(place.dir())
        .arg("-s")
        .arg(other.path());
    let output = output(&mut suite)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let counted = Summary::parse(&text).ok_or_else(|| format!("no summary: {}", said(&suite, &output)))?;
    println!("{text}");
    place.close()?;
    counted.verdict()
}

/// A directory on another file system than `dir`, for `EXDEV`.
fn elsewhere(dir: &Path) -> Result<tempfile::TempDir, String> {
    let device = |path: &Path| {
        std::fs::metadata(path)
            .map(|meta| meta.dev())
            .map_err(|e| format!("{}: {e}", path.display()))
    };
    let here = device(dir)?;
    let others = [std::env::temp_dir(), "/dev/shm".into(), "/run".into()];
    let other = others
        .iter()
        .find(|other| device(other).is_ok_and(|there| there != here));
    let other = other.ok_or("no second file system for EXDEV: neither the temporary directory, /dev/shm nor /run")?;
    tempfile::tempdir_in(other).map_err(|e| format!("{}: {e}", other.display()))
}

impl Summary {
    /// Reads `Summary: 1 failed, 14 skipped, 383 passed, 0 expected failures, 398 total`.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().rev().find_map(|line| line.strip_prefix("Summary: "))?;
        let count = |word: &str| {
            let part = line.split(", ").find_map(|part| part.strip_suffix(word))?;
            part.trim().parse().ok()
        };
        Some(Self {
            failed: count("failed")?,
            skipped: count("skipped")?,
            passed: count("passed")?,
            total: count("total")?,
        })
    }

    fn verdict(&self) -> Result<String, String> {
        let Self {
            failed,
            skipped,
            passed,
            total,
        } = *self;
        let counted = format!("pjdfstest: {passed} passed, {failed} failed, {skipped} skipped");
        if failed == 0 && skipped <= SKIPPED_MAX && passed + skipped == total && passed > 0 {
            Ok(counted)
        } else {
            Err(format!(
                "{counted} of {total}; none may fail, at most {SKIPPED_MAX} may be skipped"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
