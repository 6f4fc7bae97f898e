//! The library in process, without FUSE: how long single operations take, by one thread and by two (BARS P-5, P-8), and
//! beside it a file system of the kernel that is asked for the same.
//!
//! Each thread has a directory of its own, and its share of the files. An operation is timed alone, with the cost of reading the clock taken off;
//! beside it stands the processor time of the thread, which a loaded machine does not stretch.

pub mod calls;
pub mod kernel;
pub mod library;
pub mod ops;
pub mod varmail;

use keepfs_fs::{Volume, VolumeOptions};
use keepfs_lab::cpu::thread_ns;
use keepfs_lab::million::Failure;
use keepfs_media::Device;
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::ram::RamDevice;
use keepfs_store::{Equations, FormatOptions, PROTECT_DEFAULT, Protection, StoreOptions};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What guards the frames of the pools, if not the default.
pub static PROTECT: OnceLock<Protection> = OnceLock::new();

/// Which equations transactions must satisfy, if not all.
pub static AUDIT: OnceLock<Equations> = OnceLock::new();

/// Where the pool lies.
#[derive(Clone, Copy, Debug)]
pub enum Medium<'p> {
    /// In memory: everything but the device.
    Ram,
    /// In a new file.
    File(&'p Path),
    /// On a block device, whatever was on it.
    Device(&'p Path),
}

/// Pages of a pool in memory that are there from the beginning: the log and the zones that a run comes to.
const MEMORY: u64 = 160 << 10;

/// A new pool of `pages` pages on `medium` (on a device: of all it has), mounted in this process.
pub fn mount(medium: Medium<'_>, pages: u64, arena_mib: usize) -> Result<Arc<Volume>, Failure> {
    let device: Arc<dyn Device> = match medium {
        Medium::Ram => Arc::new(RamDevice::with_memory(pages, MEMORY)),
        Medium::File(path) => {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => {}
            }
            Arc::new(FileDevice::create(path, pages, FileOptions::default())?)
        }
        Medium::Device(path) => Arc::new(FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default())?),
    };
    let format = FormatOptions {
        protect: PROTECT.get().copied().unwrap_or(PROTECT_DEFAULT),
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format)?;
    let options = VolumeOptions {
        store: StoreOptions {
            arena_bytes: arena_mib << 20,
            audit: AUDIT.get().copied().unwrap_or_default(),
            ..StoreOptions::default()
        },
        ..VolumeOptions::default()
    };
    Ok(Volume::open(device, &options)?)
}

/// What one kind of operation cost.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which.
    pub operation: &'static str,
    /// Threads that did it at a time.
    pub threads: usize,
    /// How often, all threads together.
    pub count: usize,
    /// Half took no longer, nanoseconds.
    pub median_ns: u64,
    /// 99 in 100 took no longer, nanoseconds.
    pub p99_ns: u64,
    /// Processor time of the threads themselves, nanoseconds each.
    pub cpu_ns: u64,
    /// That of the whole process, nanoseconds each: with the threads behind it, and the clocks of the measurement.
    pub all_cpu_ns: u64,
    /// All threads together, by the clock.
    pub per_second: u64,
}

impl Row {
    /// One JSON object.
    pub fn json(&self) -> String {
        format!(
            r#"{{"operation":"{}","threads":{},"count":{},"median_ns":{},"p99_ns":{},"cpu_ns":{},"all_cpu_ns":{},"per_second":{}}}"#,
            self.operation,
            self.threads,
            self.count,
            self.median_ns,
            self.p99_ns,
            self.cpu_ns,
            self.all_cpu_ns,
            self.per_second
        )
    }
}

/// What a thread saw.
struct Seen {
    each_ns: Vec<u64>,
    cpu_ns: u64,
    seconds: f64,
}

/// Times `count` calls of `f`.
fn times<E>(count: usize, mut f: impl FnMut(usize) -> Result<(), E>) -> Result<Seen, E> {
    let mut each_ns = Vec::with_capacity(count);
    let clock_ns = clock_ns();
    let (cpu, started) = (thread_ns(), Instant::now());
    for i in 0..count {
        let at = Instant::now();
        f(i)?;
        each_ns.push((at.elapsed().as_nanos() as u64).saturating_sub(clock_ns));
    }
    Ok(Seen {
        each_ns,
        cpu_ns: (thread_ns() - cpu).saturating_sub(2 * clock_ns * count as u64),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// What an empty measurement tells.
fn clock_ns() -> u64 {
    let mut least: Vec<u64> = (0..101).map(|_| Instant::now().elapsed().as_nanos() as u64).collect();
    least.sort_unstable();
    least[least.len() / 2]
}

/// Processor time of the whole process.
fn process_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Does `f` `count` times in each of `threads` threads; `f` gets the thread's number and a count.
pub fn measure<E: Send>(
    operation: &'static str,
    threads: usize,
    count: usize,
    f: impl Fn(usize, usize) -> Result<(), E> + Sync,
) -> Result<Row, E> {
    let start = std::sync::Barrier::new(threads);
    let before = process_ns();
    let seen: Result<Vec<Seen>, E> = std::thread::scope(|scope| {
        let (f, start) = (&f, &start);
        let thread = |t: usize| {
            scope.spawn(move || {
                start.wait();
                times(count, |i| f(t, i))
            })
        };
        let all: Vec<_> = (0..threads).map(thread).collect();
        all.into_iter().map(|t| t.join().expect("a thread panicked")).collect()
    });
    let seen = seen?;
    let process = process_ns() - before;
    let mut each_ns: Vec<u64> = seen.iter().flat_map(|s| s.each_ns.iter().copied()).collect();
    each_ns.sort_unstable();
    let all = each_ns.len().max(1);
    let at = |per_cent: usize| each_ns.get((all * per_cent / 100).min(all - 1)).copied().unwrap_or(0);
    Ok(Row {
        operation,
        threads,
        count: all,
        median_ns: at(50),
        p99_ns: at(99),
        cpu_ns: seen.iter().map(|s| s.cpu_ns).sum::<u64>() / all as u64,
        all_cpu_ns: process / all as u64,
        per_second: seen.iter().map(|s| count as f64 / s.seconds).sum::<f64>() as u64,
    })
}

#[cfg(test)]
mod tests;
