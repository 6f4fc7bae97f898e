//! Many files on a small arena, one large directory, and the barrier of a checkpoint: figures beside BARS P-7 to P-9.
//! The walk judges what a crash left; more than `--beside` MiB in memory beside the arena is a failure.
//!
//! `cargo run --release -p keepfs-lab --bin million -- [--files N] [--changes N] [--entries N] [--arena MIB]
//! [--barrier MIB] [--beside MIB] [--remove 0|1] [--image PATH]`, or instead of all that `--grow FILES [--dirs N]
//! [--changes N]`: operations at 10^3, 10^4, … files, a JSON object in a line for each.

use keepfs_lab::million::memory::Sampler;
use keepfs_lab::million::{Failure, Pool, Seen, Start, barrier, big_dir, files, grow, tell, tell_stops};
use keepfs_vfs::Vfs;
use std::path::PathBuf;
use std::time::Instant;

/// What the command line asks for.
struct Wishes {
    files: u64,
    changes: u64,
    /// Entries of the one large directory; 0 = none.
    entries: u64,
    arena_mib: usize,
    /// Files of the growth; 0 = none.
    grow: u64,
    /// Directories of the growth.
    dirs: u64,
    /// Arena of the measurement of the barrier; 0 = none.
    barrier_mib: usize,
    /// Most MiB beside the arena.
    beside_mib: u64,
    /// Remove everything at the end.
    remove: bool,
    image: PathBuf,
}

fn wishes() -> Result<Wishes, String> {
    let mut w = Wishes {
        files: 1_000_000,
        changes: 100_000,
        entries: 0,
        grow: 0,
        dirs: 16,
        arena_mib: 64,
        barrier_mib: 0,
        beside_mib: 64,
        remove: false,
        image: std::env::temp_dir().join("keepfs-million.img"),
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|e| format!("{flag} {value}: {e}"));
        match flag.as_str() {
            "--files" => w.files = number()?,
            "--changes" => w.changes = number()?,
            "--entries" => w.entries = number()?,
            "--grow" => w.grow = number()?,
            "--dirs" => w.dirs = number()?,
            "--arena" => w.arena_mib = number()? as usize,
            "--barrier" => w.barrier_mib = number()? as usize,
            "--beside" => w.beside_mib = number()?,
            "--remove" => w.remove = number()? != 0,
            "--image" => w.image = value.into(),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(w)
}

/// Makes and changes files, cuts power, opens, closes, opens again; the peak of KiB beside the arena.
fn many_files(w: &Wishes) -> Result<(), Failure> {
    let sampler = Sampler::start();
    let pool = Pool::create(&w.image, w.files * 2 + 262_144, w.arena_mib)?;
    files::run(&pool, w.files, w.changes, &sampler)?;
    let started = Start::now();
    pool.volume.syncfs()?;
    tell("sync", started, 1, &sampler);
    let (frames, dirty, evictions) = pool.volume.store().arena_figures();
    println!("arena: {frames} frames, {dirty} dirty, {evictions} evictions");
    tell_stops(&pool.volume);
    pool.cut();
    let pool = Pool::open(&w.image, w.arena_mib, "mount after a power cut", &sampler)?;
    pool.close(&sampler)?;
    let pool = Pool::open(&w.image, w.arena_mib, "mount after unmount", &sampler)?;
    pool.close(&sampler)?;
    let peak = sampler.peak_kib();
    println!("peak beside the arena: {} MiB", peak >> 10);
    walk(w)?;
    if w.remove {
        let sampler = Sampler::start();
        let pool = Pool::open(&w.image, w.arena_mib, "mount", &sampler)?;
        files::remove_all(&pool, &sampler)?;
        pool.close(&sampler)?;
        walk(w)?;
    }
    if evictions == 0 && w.files > 200_000 {
        return Err("nothing was evicted: the arena is too large for this".into());
    }
    match peak >> 10 > w.beside_mib {
        true => Err(format!("{} MiB beside the arena, {} allowed (P-9)", peak >> 10, w.beside_mib).into()),
        false => Ok(()),
    }
}

fn big_directory(w: &Wishes) -> Result<(), Failure> {
    let sampler = Sampler::start();
    let pool = Pool::create(&w.image, w.entries / 2 + 262_144, w.arena_mib)?;
    big_dir::run(&pool, w.entries, &sampler)?;
    tell_stops(&pool.volume);
    pool.close(&sampler)?;
    println!("peak beside the arena: {} MiB", sampler.peak_kib() >> 10);
    walk(w)
}

/// Growth alone; its last lines are the memory beside the arena and the times of unmount, mount and mount after a cut.
fn growth(w: &Wishes) -> Result<(), Failure> {
    let sampler = Sampler::start();
    // The metadata has two copies, and half as much again as reserve.
    let pool = Pool::create(&w.image, w.grow / 2 + 262_144, w.arena_mib)?;
    let wishes = grow::Wishes {
        files: w.grow,
        dirs: w.dirs,
        each: w.changes,
    };
    grow::run(&pool, wishes, &sampler)?;
    pool.volume.syncfs()?;
    pool.cut();
    let pool = Pool::open(&w.image, w.arena_mib, "mount after a power cut", &sampler)?;
    pool.close(&sampler)?;
    let pool = Pool::open(&w.image, w.arena_mib, "mount after unmount", &sampler)?;
    pool.close(&sampler)?;
    println!("peak beside the arena: {} MiB", sampler.peak_kib() >> 10);
    Ok(())
}

/// What the offline walk says.
fn walk(w: &Wishes) -> Result<(), Failure> {
    use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
    let started = Instant::now();
    let device = FileDevice::open(&w.image, OpenMode::ReadOnly, FileOptions::default())?;
    let report = keepfs_check::walk(&Seen(std::sync::Arc::new(device)), &keepfs_check::Options::default());
    let s = started.elapsed().as_secs_f64();
    println!("walk of {} inodes: {s:.2} s", report.counts.inodes);
    match report.errors().next() {
        Some(first) => Err(format!("the walk found errors, first: {first}").into()),
        None => Ok(()),
    }
}

fn run(w: &Wishes) -> Result<(), Failure> {
    if w.grow > 0 {
        growth(w)?;
        return Ok(std::fs::remove_file(&w.image)?);
    }
    if w.barrier_mib > 0 {
        println!("longest barrier: {} us", barrier::run(w.barrier_mib, 3)?);
    }
    if w.entries > 0 {
        big_directory(w)?;
    }
    if w.files > 0 {
        many_files(w)?;
    }
    Ok(std::fs::remove_file(&w.image).or_else(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(e),
    })?)
}

fn main() {
    let done = wishes().map_err(Into::into).and_then(|w| run(&w));
    if let Err(error) = done {
        eprintln!("million: {error}");
        std::process::exit(1);
    }
}
