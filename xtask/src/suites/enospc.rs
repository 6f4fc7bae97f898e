//! A full pool (promise C-7): told when it is written, overwriting and deleting always work, all space comes back.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{Bench, Place};
use crate::install;

/// Size of the pool. Small, so that a full one is soon made, and so that every checkpoint counts.
const MIB: u64 = 64;

/// Files of which bytes are written again when the pool is full.
const OVERWRITTEN: usize = 500;

/// How a pool is filled.
struct Way {
    name: &'static str,
    /// Bytes of each file.
    bytes: usize,
    /// Every file is made durable when it is written.
    synced: bool,
    /// At least so many files of it must fit.
    files_min: usize,
}

const WAYS: &[Way] = &[
    Way {
        name: "large",
        bytes: 1 << 30,
        synced: true,
        files_min: 1,
    },
    Way {
        name: "pages",
        bytes: 4096,
        synced: false,
        files_min: 5_000,
    },
    Way {
        name: "synced",
        bytes: 150_000,
        synced: true,
        files_min: 200,
    },
    Way {
        name: "empty",
        bytes: 0,
        synced: false,
        files_min: 10_000,
    },
];

/// Each way twice on one pool: what the first round took the second one must find again.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    if bench.dir.is_some() {
        return Err("fills a whole file system; runs on a pool only".into());
    }
    let mut counted = Vec::new();
    for way in WAYS {
        let place = bench.place(way.name, MIB, &[])?;
        let first = round(&place, way).map_err(|e| format!("{}: {e}", way.name))?;
        let second = round(&place, way).map_err(|e| format!("{}, again: {e}", way.name))?;
        if first.0 < way.files_min || second.1 * 10 < first.1 * 9 {
            return Err(format!(
                "{}: {} files of {} bytes in all fitted, then {} of {}",
                way.name, first.0, first.1, second.0, second.1
            ));
        }
        counted.push(format!("{} {}", first.0, way.name));
        place.close()?;
    }
    Ok(format!(
        "enospc: filled twice with {} files, nothing lost",
        counted.join(", ")
    ))
}

/// Fills, writes again what is there, deletes everything; how many files there were, and their bytes plus one each.
fn round(place: &Place, way: &Way) -> Result<(usize, u64), String> {
    let dir = place.dir().join("filled");
    fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let files = fill(&dir, way)?;
    let mut bytes = 0;
    for path in &files {
        bytes += 1 + fs::metadata(path)
            .map_err(|e| format!("{}: {e}", path.display()))?
            .len();
    }
    overwrite(&files)?;
    sync(place.dir())?;
    for (number, path) in files.iter().enumerate() {
        empty(path, number).map_err(|e| format!("full, and {}: {e}", path.display()))?;
    }
    fs::remove_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    sync(place.dir())?;
    Ok((files.len(), bytes))
}

/// Makes files until there is no space; those that exist.
fn fill(dir: &Path, way: &Way) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    loop {
        let path = dir.join(files.len().to_string());
        let made = File::create(&path);
        if made.is_ok() {
            files.push(path.clone());
        }
        match made.and_then(|file| write(file, way)) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::StorageFull => return Ok(files),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        }
    }
}

fn write(mut file: File, way: &Way) -> std::io::Result<()> {
    let piece = [b'f'; 1 << 16];
    let mut left = way.bytes;
    let mut full = Ok(());
    while left > 0 && full.is_ok() {
        let len = left.min(piece.len());
        full = file.write_all(&piece[..len]);
        left -= len;
    }
    // What was taken is kept, even if it was not all.
    if way.synced {
        file.sync_all()?;
    }
    full
}

/// Bytes that are there can always be written again, and are read back.
fn overwrite(files: &[PathBuf]) -> Result<(), String> {
    let every = files.len().div_ceil(OVERWRITTEN).max(1);
    for path in files.iter().step_by(every) {
        again(path).map_err(|e| format!("full, and overwriting {}: {e}", path.display()))?;
    }
    Ok(())
}

fn again(path: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let bytes = vec![b'o'; len.min(1 << 20)];
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    let mut read = vec![0; bytes.len()];
    file.read_exact(&mut read)?;
    if read == bytes {
        return Ok(());
    }
    Err(std::io::Error::other("other bytes came back"))
}

/// Every third file is truncated first, every fifth renamed.
fn empty(path: &Path, number: usize) -> std::io::Result<()> {
    if number.is_multiple_of(3) {
        OpenOptions::new().write(true).open(path)?.set_len(1)?;
    }
    if number.is_multiple_of(5) {
        let other = path.with_extension("renamed");
        fs::rename(path, &other)?;
        return fs::remove_file(other);
    }
    fs::remove_file(path)
}

fn sync(dir: &Path) -> Result<(), String> {
    let dir = File::open(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    rustix::fs::syncfs(&dir).map_err(|e| format!("syncfs of a full pool: {e}"))
}
