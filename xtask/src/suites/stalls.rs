//! What others feel of one user's long requests (R-13, S-20.12): how long a create in another directory takes while a file of many
//! shared pages is cut, punched and removed, a large directory is listed, and more is allocated than there is. Nothing is asserted of
//! times: they are told.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Result as Io};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FallocateFlags, StatxFlags, copy_file_range, fallocate, statx};

use super::Bench;
use crate::install;

/// How large what others ask for is.
struct Sizes {
    /// MiB of the pool.
    pool: u64,
    /// Bytes of the file of shared pages, which takes no space but for its map.
    shared: u64,
    /// Bytes of which it is made: a page has less than 2^16 references (S-7.3).
    piece: u64,
    /// Names of the large directory.
    names: usize,
}

const SIZES: Sizes = Sizes {
    pool: 2 << 10,
    shared: 16 << 30,
    piece: 1 << 20,
    names: 100_000,
};
/// Those of R-13. The map of the file takes 16 bytes a page of 4 KiB, in two copies.
const LONG: Sizes = Sizes {
    pool: 32 << 10,
    shared: 1 << 40,
    piece: 64 << 20,
    names: 1_000_000,
};
/// Who asks for attributes of that file, each again a moment after its answer: more than the mount has threads that read requests, so
/// that none would be left if each of them slept for the file's lock.
const ASKERS: usize = 6;
/// How long the least is beside which creates are made.
const LEAST: Duration = Duration::from_secs(2);
/// Between two creates, and between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(2);

/// Each kind of long request beside creates. What the creates took.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    let sizes = if bench.long { LONG } else { SIZES };
    let place = bench.place("stalls", sizes.pool, &[])?;
    let told = all(place.dir(), &sizes).map_err(|e| format!("stalls: {e}"))?;
    place.close()?;
    Ok(format!("stalls: {}", told.join("; ")))
}

fn all(dir: &Path, sizes: &Sizes) -> Io<Vec<String>> {
    let (mine, theirs) = (dir.join("mine"), dir.join("theirs"));
    fs::create_dir(&mine)?;
    fs::create_dir(&theirs)?;
    let large = theirs.join("large");
    fs::create_dir(&large)?;
    for name in 0..sizes.names {
        File::create(large.join(format!("a name of some length {name}")))?;
    }
    let big = theirs.join("big");
    let again = || -> Io<()> { while_there_is_time(|| Ok(())) };
    let list = || while_there_is_time(|| fs::read_dir(&large)?.try_for_each(|entry| entry.map(drop)));
    let allocate = || {
        while_there_is_time(|| {
            let file = File::create(theirs.join("more than there is"))?;
            match fallocate(&file, FallocateFlags::empty(), 0, 16 << 40) {
                Err(rustix::io::Errno::NOSPC) => Ok(()),
                other => Err(Error::other(format!("16 TiB were allocated: {other:?}"))),
            }
        })
    };
    let cut = || OpenOptions::new().write(true).open(&big)?.set_len(0);
    let punch = || {
        let file = OpenOptions::new().write(true).open(&big)?;
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&file, mode, 0, sizes.shared)?)
    };
    let remove = || {
        fs::remove_file(&big)?;
        again()
    };
    let mut told = vec![beside("nothing", &mine, &big, &again)?];
    told.push(beside(&format!("listing {} names", sizes.names), &mine, &big, &list)?);
    told.push(beside("allocating 16 TiB", &mine, &big, &allocate)?);
    let works: [(&str, &(dyn Fn() -> Io<()> + Sync)); 3] =
        [("cutting", &cut), ("punching", &punch), ("removing", &remove)];
    for (what, work) in works {
        share(&big, sizes)?;
        told.push(beside(
            &format!("{what} {} GiB of shared pages", sizes.shared >> 30),
            &mine,
            &big,
            work,
        )?);
    }
    Ok(told)
}

/// A file of many references to the pages of its first piece.
fn share(path: &Path, sizes: &Sizes) -> Io<()> {
    fs::write(path, vec![7; sizes.piece as usize])?;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    file.sync_all()?;
    let mut size = sizes.piece;
    while size < sizes.shared {
        let (mut from, mut to) = (0, size);
        while from < size {
            let left = (size - from) as usize;
            copy_file_range(&file, Some(&mut from), file.as_fd(), Some(&mut to), left)?;
        }
        size *= 2;
    }
    Ok(())
}

fn while_there_is_time(mut work: impl FnMut() -> Io<()>) -> Io<()> {
    let begun = Instant::now();
    while begun.elapsed() < LEAST {
        work()?;
        thread::park_timeout(PAUSE);
    }
    Ok(())
}

/// Creates files in `mine` while `work` is done and others ask for the attributes of `big`. What a create took.
fn beside(what: &str, mine: &Path, big: &Path, work: &(dyn Fn() -> Io<()> + Sync)) -> Io<String> {
    let over = AtomicBool::new(false);
    let (took, mut times) = thread::scope(|scope| {
        let over = &over;
        let ask = || {
            while !over.load(Ordering::Acquire) {
                // It may not be there.
                let _ = statx(CWD, big, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
                thread::park_timeout(PAUSE);
            }
        };
        for _ in 0..ASKERS {
            scope.spawn(ask);
        }
        let creator = scope.spawn(move || creates(mine, over));
        let begun = Instant::now();
        let done = work();
        let took = begun.elapsed();
        over.store(true, Ordering::Release);
        let times = creator
            .join()
            .unwrap_or_else(|_| Err(Error::other("who creates panicked")));
        done.and(times).map(|times| (took, times))
    })?;
    times.sort_unstable();
    let at = |part: usize| {
        times
            .get(times.len().saturating_sub(1) * part / 100)
            .copied()
            .unwrap_or_default()
    };
    Ok(format!(
        "{what} ({:.1} s): {} creates, median {:.2} ms, p99 {:.2}, max {:.2}",
        took.as_secs_f64(),
        times.len(),
        at(50).as_secs_f64() * 1e3,
        at(99).as_secs_f64() * 1e3,
        at(100).as_secs_f64() * 1e3
    ))
}

fn creates(mine: &Path, over: &AtomicBool) -> Io<Vec<Duration>> {
    let mut times = Vec::new();
    let path = |n: usize| -> PathBuf { mine.join(n.to_string()) };
    while !over.load(Ordering::Acquire) {
        let begun = Instant::now();
        File::create(path(times.len()))?;
        times.push(begun.elapsed());
        thread::park_timeout(PAUSE);
    }
    (0..times.len()).try_for_each(|n| fs::remove_file(path(n)))?;
    Ok(times)
}
