//! A device that fails while it is written: reading goes on, status says so, nothing acknowledged is lost.
//!
//! The pool is a sparse file on a tmpfs too small for it: at some page the device says an error, which file data meet alone as long
//! as there is the room that is kept for all else (S-2.14). Then the tmpfs is made larger, as if the device had been mended.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use super::pool::Pool;
use super::process::run as must;
use super::writer::{Writer, verify};
use crate::install;

/// Sizes of the tmpfs in KiB, each a failure somewhere else; odd ones, so that no structure ends there.
const SIZES_KIB: &[u64] = &[25_001, 30_503, 39_017, 53_501, 68_013];

/// Size of the pool.
const MIB: u64 = 512;

/// Threads that write and fsync.
const WRITERS: usize = 3;

/// A tmpfs, unmounted when dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn new(dir: PathBuf, kib: u64) -> Result<Self, String> {
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let size = format!("size={kib}k");
        must(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
                .arg(&dir),
        )?;
        Ok(Self(dir))
    }

    fn grow(&self) -> Result<(), String> {
        must(Command::new("mount").args(["-o", "remount,size=1g"]).arg(&self.0)).map(drop)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).output());
    }
}

/// One failure for each size.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    if bench.dir.is_some() {
        return Err("needs a device that fails; runs on a pool only".into());
    }
    let (mut faulted, mut acknowledged) = (0, 0);
    for kib in SIZES_KIB {
        let dir = bench.scratch.path().join(format!("tmpfs{kib}"));
        let (ended, files) = fail(dir, *kib).map_err(|e| format!("a device that fails at {kib} KiB: {e}"))?;
        faulted += usize::from(ended);
        acknowledged += files;
    }
    Ok(format!(
        "media_errors: {} failing devices ({faulted} ended all writing), {acknowledged} acknowledged files, none lost",
        SIZES_KIB.len()
    ))
}

/// Writes until the device fails; returns whether that ended all writing, and how many files were acknowledged and
/// found again. A failure that meets file data only is the writer's who hears of it: nothing that was there is lost.
fn fail(dir: PathBuf, kib: u64) -> Result<(bool, usize), String> {
    let tmpfs = Tmpfs::new(dir, kib)?;
    let mut pool = Pool::create(&tmpfs.0, "pool", MIB)?;
    pool.mount(&[])?;
    let dirs: Vec<PathBuf> = (0..WRITERS).map(|n| pool.point().join(n.to_string())).collect();
    let writers: Vec<Writer> = dirs.iter().cloned().map(Writer::start).collect();
    let mut written = Vec::new();
    for writer in writers {
        let (count, error) = writer.join()?;
        println!("{count} acknowledged, then: {error}");
        written.push(count);
    }
    let faulted = is_faulted(&pool)?;
    verify_all(&dirs, &written)?;
    if faulted && std::fs::create_dir(pool.point().join("late")).is_ok() {
        return Err("all writing ended, and a directory can be made".into());
    }
    // That not everything is durable is told, and the mount is gone all the same.
    let unmounted = pool.unmount();
    if faulted && unmounted.is_ok() {
        return Err("all writing ended, and unmount says that everything is durable".into());
    }
    tmpfs.grow()?;
    pool.mount(&[])?;
    verify_all(&dirs, &written)?;
    pool.unmount()?;
    pool.check()?;
    Ok((faulted, written.iter().sum()))
}

/// Whether a failure ended all writing. Errors: status keeps a failure for itself, or says read-write when it is not.
fn is_faulted(pool: &Pool) -> Result<bool, String> {
    let status = pool.status()?;
    let faulted = status["state"] == "FAULTED";
    let told = status["errors"].as_array().is_some_and(|errors| !errors.is_empty());
    if status["state"] == "ONLINE" || !told {
        return Err(format!("the device failed, and status does not say so: {status}"));
    }
    // What keeps room for all but file data is no failure of the device (S-2.14).
    let is_full = status["action"]
        .as_str()
        .is_some_and(|text| text.starts_with("make room there"));
    let failed = status["device_errors"].as_object();
    if !is_full && !failed.is_some_and(|kinds| kinds.values().any(|count| *count != 0)) {
        return Err(format!("the device failed, and nothing is counted: {status}"));
    }
    if is_full && faulted {
        return Err(format!("a full host ended all writing (S-2.14): {status}"));
    }
    if status["mount"]["writing_ended"] != faulted {
        return Err(format!(
            "{}, and its mount says the contrary: {status}",
            status["state"]
        ));
    }
    Ok(faulted)
}

fn verify_all(dirs: &[impl AsRef<Path>], written: &[usize]) -> Result<(), String> {
    dirs.iter()
        .zip(written)
        .try_for_each(|(dir, count)| verify(dir.as_ref(), *count))
}
