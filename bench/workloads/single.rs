//! One thread, one call at a time: create, append, stat, open, rename, unlink, delete.

use crate::figures::Done;
use crate::random::Random;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directories that the files are spread over (ReconFS section 5.2.2).
const DIRS: u64 = 100;
/// Files that `stat` and `open` draw from, and that `delete` deletes.
const FILES: u64 = 5_000;
/// Most that an append test writes.
const APPENDED_MAX: u64 = 512 << 20;

fn place(dir: &Path, set: &str, number: u64) -> PathBuf {
    dir.join(format!("{set}/{:02}/{number:08}", number % DIRS))
}

fn directories(dir: &Path, set: &str) -> io::Result<()> {
    (0..DIRS).try_for_each(|number| fs::create_dir_all(dir.join(format!("{set}/{number:02}"))))
}

/// How many files a set should have.
fn files(percent: Option<usize>) -> u64 {
    (FILES * percent.unwrap_or(100) as u64 / 100).max(20)
}

/// Makes directories for [`create`] and [`bare_create`].
pub fn prepare_dirs(dir: &Path) -> io::Result<Done> {
    directories(dir, "create")?;
    directories(dir, "bare")?;
    Ok(Done::default())
}

/// Makes the files for [`stat`], [`open`] and [`delete`].
pub fn prepare_files(dir: &Path, set: &str, percent: Option<usize>) -> io::Result<Done> {
    directories(dir, set)?;
    for number in 0..files(percent) {
        File::create(place(dir, set, number))?.write_all(&[7; 100])?;
    }
    Ok(Done {
        operations: files(percent),
        ..Done::default()
    })
}

/// Does `operation` with 0, 1, 2, … until the time is over or it says that nothing is left.
fn repeat(time: Duration, mut operation: impl FnMut(&mut Done, u64) -> io::Result<bool>) -> io::Result<Done> {
    let mut done = Done::default();
    let start = Instant::now();
    let mut number = 0;
    while start.elapsed() < time && operation(&mut done, number)? {
        number += 1;
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// An operation is create, write 1 KiB, fsync, close, of a new file (BARS P-1, M-17).
pub fn create(dir: &Path, time: Duration) -> io::Result<Done> {
    repeat(time, |done, number| {
        let mut synced = Duration::ZERO;
        done.timed(|| {
            let mut file = File::create_new(place(dir, "create", number))?;
            file.write_all(&[7; 1024])?;
            let before = Instant::now();
            file.sync_all()?;
            synced = before.elapsed();
            Ok(())
        })?;
        done.fsyncs += 1;
        done.fsync_times.count(synced);
        done.bytes += 1024;
        Ok(true)
    })
}

/// An operation is the creation of an empty file (BARS P-3).
pub fn bare_create(dir: &Path, time: Duration) -> io::Result<Done> {
    repeat(time, |done, number| {
        done.timed(|| File::create_new(place(dir, "bare", number)).map(drop))?;
        Ok(true)
    })
}

/// An operation is the stat of a file drawn at random.
pub fn stat(dir: &Path, time: Duration, percent: Option<usize>) -> io::Result<Done> {
    let (mut random, count) = (Random(1), files(percent));
    repeat(time, |done, _| {
        let path = place(dir, "files", random.below(count));
        done.timed(|| fs::symlink_metadata(path).map(drop))?;
        Ok(true)
    })
}

/// An operation opens a file drawn at random, and closes it.
pub fn open(dir: &Path, time: Duration, percent: Option<usize>) -> io::Result<Done> {
    let (mut random, count) = (Random(2), files(percent));
    repeat(time, |done, _| {
        let path = place(dir, "files", random.below(count));
        done.timed(|| File::open(path).map(drop))?;
        Ok(true)
    })
}

/// An operation renames a file that [`bare_create`] made, within its directory.
pub fn rename(dir: &Path, time: Duration) -> io::Result<Done> {
    repeat(time, |done, number| {
        let from = place(dir, "bare", number);
        if !from.exists() {
            return Ok(false);
        }
        done.timed(|| fs::rename(&from, from.with_extension("new")))?;
        Ok(true)
    })
}

/// An operation unlinks a file that [`bare_create`] made and [`rename`] maybe renamed, until none is left.
pub fn unlink(dir: &Path, time: Duration) -> io::Result<Done> {
    repeat(time, |done, number| {
        let old = place(dir, "bare", number);
        let new = old.with_extension("new");
        let path = if new.exists() { new } else { old };
        if !path.exists() {
            return Ok(false);
        }
        done.timed(|| fs::remove_file(&path))?;
        Ok(true)
    })
}

/// An operation unlinks one of the prepared files; all of them go, and the sync at the end is part of the time (M-17).
pub fn delete(dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    let count = files(percent);
    repeat(Duration::MAX, |done, number| {
        if number == count {
            return Ok(false);
        }
        done.timed(|| fs::remove_file(place(dir, "deleted", number)))?;
        Ok(true)
    })
}

/// An operation appends 4 KiB to one file; every `each` of them an fsync (M-17).
pub fn append(dir: &Path, time: Duration, each: u64) -> io::Result<Done> {
    let mut file = File::create(dir.join(format!("append{each}")))?;
    repeat(time, |done, number| {
        done.timed(|| file.write_all(&[7; 4096]))?;
        done.bytes += 4096;
        if number % each == each - 1 {
            done.fsync(|| file.sync_all())?;
        }
        Ok(done.bytes < APPENDED_MAX)
    })
}
