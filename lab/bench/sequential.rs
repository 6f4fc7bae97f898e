//! One large file in pieces of 1 MiB: written and fsynced, then read.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use crate::Done;

/// Bytes a call.
const PIECE: usize = 1 << 20;

/// Calls.
const PIECES: u64 = 512;

/// Writes a new file of 512 MiB and fsyncs it once.
pub fn write(dir: &Path) -> std::io::Result<Done> {
    let piece: Vec<u8> = (0..PIECE).map(|at| ((at * 31) >> 3) as u8).collect();
    let start = Instant::now();
    let mut file = File::create(dir.join("large"))?;
    for _ in 0..PIECES {
        file.write_all(&piece)?;
    }
    file.sync_all()?;
    Ok(done(start, 1))
}

/// Reads it; the caller has emptied the caches.
pub fn read(dir: &Path) -> std::io::Result<Done> {
    let mut piece = vec![0; PIECE];
    let start = Instant::now();
    let mut file = File::open(dir.join("large"))?;
    for _ in 0..PIECES {
        file.read_exact(&mut piece)?;
    }
    Ok(done(start, 0))
}

fn done(start: Instant, fsyncs: u64) -> Done {
    let seconds = start.elapsed().as_secs_f64();
    Done {
        operations: PIECES,
        fsyncs,
        bytes: PIECES * PIECE as u64,
        seconds,
    }
}
