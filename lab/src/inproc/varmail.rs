//! filebench's varmail on the library: a mail server's directory under 16 threads, an fsync for every message.
//!
//! The same rounds as the mounted one's: delete; create, append, fsync, close; open, read all, append, fsync, close;
//! open, read all, close: 13 operations. 1,000 names, four in five of them files of 16 KiB on average (here uniform up to
//! 32 KiB); an append is 0 to 16 KiB, uniform. A thread draws its files from its own part of the names.

use super::{Failure, Medium, directory, mount};
use crate::million::new_inode;
use keepfs_fs::Volume;
use keepfs_vfs::ops::Rng;
use keepfs_vfs::{Errno, FileKind, Ino, Vfs, WriteHow};
use std::time::{Duration, Instant};

const THREADS: usize = 16;
const NAMES: usize = 1000;
const APPEND: u64 = 16384;

/// What was done in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Operations as filebench counts them.
    pub operations: u64,
    /// fsync calls among them.
    pub fsyncs: u64,
    /// How long it took.
    pub seconds: f64,
    /// Written to the device in that time.
    pub bytes_written: u64,
    /// Flushes of the device in that time.
    pub flushes: u64,
}

impl Done {
    /// One JSON object.
    pub fn json(&self) -> String {
        let each = |n: u64| n as f64 / self.fsyncs.max(1) as f64;
        format!(
            r#"{{"operations":{},"fsyncs":{},"per_second":{:.0},"kib_per_fsync":{:.2},"flushes_per_fsync":{:.3}}}"#,
            self.operations,
            self.fsyncs,
            self.operations as f64 / self.seconds.max(1e-9),
            each(self.bytes_written) / 1024.0,
            each(self.flushes)
        )
    }
}

/// A thread's part of the names: which are files.
struct Part<'v> {
    volume: &'v Volume,
    dir: Ino,
    files: Vec<usize>,
    free: Vec<usize>,
    random: Rng,
    buffer: Vec<u8>,
}

impl Part<'_> {
    fn name(i: usize) -> String {
        format!("{i:08}")
    }

    fn draw(&mut self) -> usize {
        self.random.below(self.files.len() as u64) as usize
    }

    fn create(&mut self, append: u64) -> Result<(), Errno> {
        let at = self.random.below(self.free.len() as u64) as usize;
        let i = self.free.swap_remove(at);
        let new = new_inode(FileKind::File);
        let entry = self.volume.mknod(self.dir, Self::name(i).as_bytes(), &new)?;
        self.append(entry.attr.ino, append)?;
        self.volume.forget(entry.attr.ino, 1);
        self.files.push(i);
        Ok(())
    }

    fn append(&mut self, ino: Ino, len: u64) -> Result<(), Errno> {
        let how = WriteHow {
            append: true,
            ..WriteHow::default()
        };
        self.volume.write(ino, 0, &vec![b'a'; len as usize], how)?;
        self.volume.fsync(ino, false)
    }

    fn read(&mut self, i: usize, append: Option<u64>) -> Result<(), Errno> {
        let ino = self.volume.lookup(self.dir, Self::name(i).as_bytes())?.attr.ino;
        let mut at = 0;
        loop {
            match self.volume.read(ino, at, &mut self.buffer)? {
                0 => break,
                n => at += n as u64,
            }
        }
        if let Some(len) = append {
            self.append(ino, len)?;
        }
        self.volume.forget(ino, 1);
        Ok(())
    }

    fn round(&mut self) -> Result<(), Errno> {
        let at = self.draw();
        let gone = self.files.swap_remove(at);
        self.volume.unlink(self.dir, Self::name(gone).as_bytes())?;
        self.free.push(gone);
        let len = self.random.below(APPEND);
        self.create(len)?;
        let (i, len) = (self.draw(), self.random.below(APPEND));
        self.read(self.files[i], Some(len))?;
        let i = self.draw();
        self.read(self.files[i], None)
    }
}

/// Runs all threads for `time`, a round each at least, on a new pool.
pub fn run(medium: Medium<'_>, arena_mib: usize, time: Duration) -> Result<Done, Failure> {
    let volume = &*mount(medium, 1 << 20, arena_mib)?;
    let dir = directory(volume, "mail")?;
    let mut parts = Vec::new();
    for t in 0..THREADS {
        let names = (0..NAMES).filter(|i| i % THREADS == t);
        let mut part = Part {
            volume,
            dir,
            files: Vec::new(),
            free: names.collect(),
            random: Rng::new(t as u64 + 1),
            buffer: vec![0; 1 << 20],
        };
        while part.files.len() < part.free.len() * 4 {
            let len = part.random.below(2 * APPEND);
            part.create(len)?;
        }
        parts.push(part);
    }
    let (before, start) = (volume.store().traffic(), Instant::now());
    let rounds: Result<Vec<u64>, Errno> = std::thread::scope(|scope| {
        let work = |mut part: Part<'_>| {
            let mut rounds = 0;
            loop {
                part.round()?;
                rounds += 1;
                if start.elapsed() >= time {
                    return Ok(rounds);
                }
            }
        };
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a thread panicked"))
            .collect()
    });
    let (seconds, after) = (start.elapsed().as_secs_f64(), volume.store().traffic());
    let rounds: u64 = rounds?.into_iter().sum();
    volume.unmount()?;
    Ok(Done {
        operations: 13 * rounds,
        fsyncs: 2 * rounds,
        seconds,
        bytes_written: (after - before).all_written().bytes,
        flushes: (after - before).flushes,
    })
}
