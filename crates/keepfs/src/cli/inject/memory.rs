//! The memory of another process's arena, reached as a stray write would reach it: past the door, through the file that
//! the guard maps.

use keepfs_format::PAGE;
use keepfs_server::Failure;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of the longest stray write.
const LONGEST: u64 = 64;

/// The frames of a server.
pub struct Arena {
    file: File,
    path: PathBuf,
    len: u64,
}

/// What came of stray writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// How many.
    pub writes: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Arena {
    /// Opens the memory that process `pid` has mapped at `address`. Errors: there is none; it may not be opened.
    pub fn open(pid: u32, address: u64) -> Result<Arena, Failure> {
        let maps = PathBuf::from(format!("/proc/{pid}/maps"));
        let table = std::fs::read_to_string(&maps).map_err(Failure::io("read", &maps))?;
        let start = format!("{address:x}-");
        let line = table
            .lines()
            .find(|line| line.trim_start_matches('0').starts_with(&start));
        let range = line.and_then(|line| line.split(' ').next());
        let none = || Failure::Other(format!("process {pid} has no metadata at {address:#x}"));
        let range = range.ok_or_else(none)?;
        let end = range
            .split_once('-')
            .and_then(|(_, end)| u64::from_str_radix(end, 16).ok());
        let len = end.and_then(|end| end.checked_sub(address)).ok_or_else(none)?;
        let path = PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(Failure::io("open", &path))?;
        Ok(Arena { file, path, len })
    }

    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads bytes.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        self.file
            .read_exact_at(bytes, offset)
            .map_err(Failure::io("read", &self.path))
    }

    /// Writes bytes; never beyond the end.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        if offset.saturating_add(bytes.len() as u64) > self.len {
            return Err(Failure::Usage("that lies behind the end of metadata in memory".into()));
        }
        self.file
            .write_all_at(bytes, offset)
            .map_err(Failure::io("write", &self.path))
    }
}

/// `count` stray writes of 1 to 64 bytes by `threads` threads.
pub fn wild(arena: &Arena, threads: u64, count: u64, seed: u64) -> Result<Done, Failure> {
    let shares = (0..threads).map(|thread| (thread, count / threads + u64::from(thread < count % threads)));
    std::thread::scope(|scope| {
        let all: Vec<_> = shares
            .map(|(thread, share)| scope.spawn(move || strays(arena, share, seed.wrapping_mul(0x9e37) + thread)))
            .collect();
        let mut done = Done::default();
        for one in all {
            let one = one
                .join()
                .map_err(|_| Failure::Other("a thread of stray writes panicked".into()))??;
            done.writes += one.writes;
            done.bytes += one.bytes;
        }
        Ok(done)
    })
}

fn strays(arena: &Arena, count: u64, seed: u64) -> Result<Done, Failure> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)) >> 8
    };
    let mut done = Done::default();
    for _ in 0..count {
        let len = 1 + next() % LONGEST;
        // Strays do not look where a frame ends.
        let offset = next() % (arena.len() - len.min(PAGE as u64)).max(1);
        let bytes: Vec<u8> = (0..len).map(|_| next() as u8).collect();
        arena.write(offset, &bytes)?;
        done.writes += 1;
        done.bytes += len;
    }
    Ok(done)
}
