//! One large file: 4 KiB at random places, and 1 MiB in order.

use crate::figures::Done;
use crate::random::Random;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

const PIECE: usize = 1 << 20;
const BLOCK: usize = 4096;
/// Size of the file with random blocks.
const RANDOM_BYTES: u64 = 64 << 20;
/// Pieces of 1 MiB.
const PIECES: u64 = 256;

fn pieces(percent: Option<usize>) -> u64 {
    (PIECES * percent.unwrap_or(100) as u64 / 100).max(4)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31) >> 3) as u8).collect()
}

/// Writes a new file of 256 MiB in pieces of 1 MiB, fsyncs it once: in the time.
pub fn write(dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    let piece = content(PIECE);
    let mut done = Done::default();
    let start = Instant::now();
    let mut file = File::create(dir.join("large"))?;
    for _ in 0..pieces(percent) {
        done.timed(|| file.write_all(&piece))?;
        done.bytes += PIECE as u64;
    }
    done.fsync(|| file.sync_all())?;
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// Fills `percent` of 8 GiB with files of 64 MiB, each fsynced (M-19).
pub fn fill(dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    let piece = content(PIECE);
    let mut done = Done::default();
    let start = Instant::now();
    for number in 0..(128 * percent.unwrap_or(100) / 100).max(1) {
        let mut file = File::create(dir.join(format!("fill{number:04}")))?;
        for _ in 0..64 {
            done.timed(|| file.write_all(&piece))?;
            done.bytes += PIECE as u64;
        }
        done.fsync(|| file.sync_all())?;
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// Reads what [`write()`] wrote; the caller decides what is cached.
pub fn read(dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    let mut piece = vec![0; PIECE];
    let mut done = Done::default();
    let start = Instant::now();
    let mut file = File::open(dir.join("large"))?;
    for _ in 0..pieces(percent) {
        done.timed(|| file.read_exact(&mut piece))?;
        done.bytes += PIECE as u64;
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// Makes the file for [`read_random`] and [`write_random`].
pub fn prepare_random(dir: &Path) -> io::Result<Done> {
    let piece = content(PIECE);
    let mut file = File::create(dir.join("random"))?;
    for _ in 0..RANDOM_BYTES / PIECE as u64 {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    Ok(Done::default())
}

fn repeat(time: Duration, mut operation: impl FnMut(u64) -> io::Result<()>) -> io::Result<Done> {
    let mut random = Random(3);
    let mut done = Done::default();
    let start = Instant::now();
    while start.elapsed() < time {
        let at = random.below(RANDOM_BYTES / BLOCK as u64) * BLOCK as u64;
        done.timed(|| operation(at))?;
        done.bytes += BLOCK as u64;
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// An operation reads 4 KiB past the page cache, so that the file system is asked each time.
pub fn read_random(dir: &Path, time: Duration) -> io::Result<Done> {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(dir.join("random"))?;
    // Direct reads need memory that is aligned.
    let mut memory = vec![0u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let block = &mut memory[start..start + BLOCK];
    repeat(time, |at| file.read_exact_at(block, at))
}

/// An operation writes 4 KiB as write(2) does by default.
pub fn write_random(dir: &Path, time: Duration) -> io::Result<Done> {
    let file = OpenOptions::new().write(true).open(dir.join("random"))?;
    let block = content(BLOCK);
    repeat(time, |at| file.write_all_at(&block, at))
}
