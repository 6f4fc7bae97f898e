//! filebench's varmail on the library: a mail server's directory under 16 threads, an fsync for every message.
//!
//! The same rounds as the mounted one's: delete; create, append, fsync, close; open, read all, append, fsync, close;
//! open, read all, close: 13 operations. 1,000 names, four in five of them files of 16 KiB on average (here uniform up to
//! 32 KiB); an append is 0 to 16 KiB, uniform. A thread draws its files from its own part of the names.

use super::calls::Calls;
use super::library::Library;
use super::{Failure, Medium, mount};
use keepfs_testkit::ops::Rng;
use keepfs_vfs::Vfs;
use std::io::Result;
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
struct Part<'c, C: Calls> {
    calls: &'c C,
    dir: &'c C::Dir,
    files: Vec<usize>,
    free: Vec<usize>,
    random: Rng,
    buffer: Vec<u8>,
}

impl<C: Calls> Part<'_, C> {
    fn name(i: usize) -> String {
        format!("{i:08}")
    }

    fn draw(&mut self) -> usize {
        self.random.below(self.files.len() as u64) as usize
    }

    fn create(&mut self, append: u64) -> Result<()> {
        let at = self.random.below(self.free.len() as u64) as usize;
        let i = self.free.swap_remove(at);
        let file = self.calls.create(self.dir, Self::name(i).as_bytes())?;
        self.append(&file, append)?;
        self.calls.close(file);
        self.files.push(i);
        Ok(())
    }

    fn append(&self, file: &C::File, len: u64) -> Result<()> {
        self.calls.append(file, &vec![b'a'; len as usize])?;
        self.calls.fsync(file)
    }

    fn read(&mut self, i: usize, append: Option<u64>) -> Result<()> {
        let file = self.calls.open(self.dir, Self::name(i).as_bytes(), true)?;
        let mut at = 0;
        loop {
            match self.calls.read(&file, at, &mut self.buffer)? {
                0 => break,
                n => at += n as u64,
            }
        }
        if let Some(len) = append {
            self.append(&file, len)?;
        }
        self.calls.close(file);
        Ok(())
    }

    fn round(&mut self) -> Result<()> {
        let at = self.draw();
        let gone = self.files.swap_remove(at);
        self.calls.unlink(self.dir, Self::name(gone).as_bytes())?;
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
pub fn run(medium: Medium<'_>, arena_mib: usize, time: Duration) -> std::result::Result<Done, Failure> {
    let volume = &*mount(medium, 1 << 20, arena_mib)?;
    let done = on(&Library(volume), time)?;
    volume.unmount()?;
    Ok(done)
}

/// The same on any file system, in a new directory.
pub fn on<C: Calls>(calls: &C, time: Duration) -> Result<Done> {
    let dir = &calls.directory("mail")?;
    let parts = (0..THREADS).map(|thread| part(calls, dir, thread));
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let (before, start) = (calls.traffic()?, Instant::now());
    let rounds: Result<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts
            .into_iter()
            .map(|part| scope.spawn(move || work(part, start, time)))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a thread panicked"))
            .collect()
    });
    let (seconds, after) = (start.elapsed().as_secs_f64(), calls.traffic()?);
    let rounds: u64 = rounds?.into_iter().sum();
    Ok(Done {
        operations: 13 * rounds,
        fsyncs: 2 * rounds,
        seconds,
        bytes_written: after.bytes - before.bytes,
        flushes: after.flushes - before.flushes,
    })
}

/// A thread's names, four in five of them files already.
fn part<'c, C: Calls>(calls: &'c C, dir: &'c C::Dir, thread: usize) -> Result<Part<'c, C>> {
    let mut part = Part {
        calls,
        dir,
        files: Vec::new(),
        free: (0..NAMES).filter(|i| i % THREADS == thread).collect(),
        random: Rng::new(thread as u64 + 1),
        buffer: vec![0; 1 << 20],
    };
    while part.files.len() < part.free.len() * 4 {
        let len = part.random.below(2 * APPEND);
        part.create(len)?;
    }
    Ok(part)
}

/// Rounds until the time is over.
fn work<C: Calls>(mut part: Part<'_, C>, start: Instant, time: Duration) -> Result<u64> {
    let mut rounds = 0;
    loop {
        part.round()?;
        rounds += 1;
        if start.elapsed() >= time {
            return Ok(rounds);
        }
    }
}
