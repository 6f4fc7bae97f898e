//! The same operations at 10^3, 10^4, … files, in one directory or in many (BARS P-8, P-9): at each size so many lookups of
//! files drawn at random, and so many of them unlinked and made again; the directory listed at the end.
//!
//! Files are empty: what grows is metadata. A line of standard output for each operation and size, progress on standard error.

use super::memory::Sampler;
use super::{Failure, Pool, new_inode};
use crate::cpu::thread_ns;
use keepfs_testkit::ops::Rng;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, Vfs};
use std::time::Instant;

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Files at the end.
    pub files: u64,
    /// Directories that they are spread over.
    pub dirs: u64,
    /// Operations of each kind at each size.
    pub each: u64,
}

/// The smallest size that is looked at.
const FIRST: u64 = 1000;

struct Growing<'p> {
    pool: &'p Pool,
    dirs: Vec<Ino>,
    each: u64,
}

/// Times of single calls and the frames that were evicted meanwhile.
struct Seen {
    ns: Vec<u64>,
    /// Processor time of this thread, which a loaded machine does not stretch.
    cpu_ns: u64,
    evictions: u64,
}

/// Names of one length in an order that is not the alphabet's.
fn name(i: u64) -> [u8; 20] {
    let mut name = [0; 20];
    let digits = format!("{:020}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    name.copy_from_slice(&digits.as_bytes()[..20]);
    name
}

impl Growing<'_> {
    fn dir(&self, i: u64) -> Ino {
        self.dirs[(i % self.dirs.len() as u64) as usize]
    }

    fn create(&self, i: u64) -> Result<(), Errno> {
        let volume = &self.pool.volume;
        let entry = volume.mknod(self.dir(i), &name(i), &new_inode(FileKind::File))?;
        volume.forget(entry.attr.ino, 1);
        Ok(())
    }

    fn lookup(&self, i: u64) -> Result<(), Errno> {
        let volume = &self.pool.volume;
        let entry = volume.lookup(self.dir(i), &name(i))?;
        volume.forget(entry.attr.ino, 1);
        Ok(())
    }

    fn unlink(&self, i: u64) -> Result<(), Errno> {
        self.pool.volume.unlink(self.dir(i), &name(i))
    }

    fn evictions(&self) -> u64 {
        self.pool.volume.store().arena_figures().2
    }

    /// Times `f` with each of `numbers`.
    fn times(&self, numbers: &[u64], f: impl Fn(u64) -> Result<(), Errno>) -> Result<Seen, Errno> {
        let (before, mut ns) = (self.evictions(), Vec::with_capacity(numbers.len()));
        let cpu = thread_ns();
        for i in numbers {
            let start = Instant::now();
            f(*i)?;
            ns.push(start.elapsed().as_nanos() as u64);
        }
        Ok(Seen {
            ns,
            cpu_ns: thread_ns() - cpu,
            evictions: self.evictions() - before,
        })
    }

    /// All operations on files drawn from `size` of them.
    fn probe(&self, size: u64, rng: &mut Rng) -> Result<(), Errno> {
        let draw: Vec<u64> = (0..self.each).map(|_| rng.below(size)).collect();
        tell("lookup", size, &self.times(&draw, |i| self.lookup(i))?);
        // So many at a time that the next size's files do not come to stand in their places.
        let (mut gone, mut made) = (Seen::empty(), Seen::empty());
        for _ in 0..self.each.div_ceil(FIRST) {
            let mut batch: Vec<u64> = (0..FIRST).map(|_| rng.below(size)).collect();
            batch.sort_unstable();
            batch.dedup();
            shuffle(&mut batch, rng);
            gone.add(self.times(&batch, |i| self.unlink(i))?);
            shuffle(&mut batch, rng);
            made.add(self.times(&batch, |i| self.create(i))?);
        }
        tell("unlink", size, &gone);
        tell("create", size, &made);
        Ok(())
    }

    /// Lists all directories; how many entries there were.
    fn list(&self) -> Result<u64, Errno> {
        let mut entries = 0;
        for dir in &self.dirs {
            let mut cookie = 0;
            loop {
                let (mut count, before) = (0, cookie);
                self.pool.volume.readdir(*dir, cookie, &mut |entry| {
                    cookie = entry.cookie;
                    count += 1;
                    count < 1000
                })?;
                entries += count;
                if cookie == before {
                    break;
                }
            }
        }
        Ok(entries)
    }
}

impl Seen {
    fn empty() -> Seen {
        Seen {
            ns: Vec::new(),
            cpu_ns: 0,
            evictions: 0,
        }
    }

    fn add(&mut self, other: Seen) {
        self.ns.extend(other.ns);
        self.cpu_ns += other.cpu_ns;
        self.evictions += other.evictions;
    }
}

fn shuffle(numbers: &mut [u64], rng: &mut Rng) {
    for i in (1..numbers.len()).rev() {
        numbers.swap(i, rng.below(i as u64 + 1) as usize);
    }
}

/// One JSON object in a line.
fn tell(what: &str, files: u64, seen: &Seen) {
    let mut sorted = seen.ns.clone();
    sorted.sort_unstable();
    let count = sorted.len().max(1);
    let at = |part: usize| sorted.get((count * part / 100).min(count - 1)).copied().unwrap_or(0) as f64 / 1e3;
    let mean = sorted.iter().sum::<u64>() as f64 / count as f64 / 1e3;
    println!(
        r#"{{"what":"{what}","files":{files},"operations":{count},"mean_us":{mean:.3},"p50_us":{:.3},"p99_us":{:.3},"processor_us":{:.3},"evictions":{}}}"#,
        at(50),
        at(99),
        seen.cpu_ns as f64 / count as f64 / 1e3,
        seen.evictions
    );
}

/// Makes them all. Errors: of the volume; a listing that does not tell every file once.
pub fn run(pool: &Pool, wishes: Wishes, sampler: &Sampler) -> Result<(), Failure> {
    let volume = &pool.volume;
    let dirs: Result<Vec<Ino>, Errno> = (0..wishes.dirs.max(1))
        .map(|d| {
            let name = format!("grown{d}");
            let entry = volume.mknod(Ino::ROOT, name.as_bytes(), &new_inode(FileKind::Dir))?;
            Ok(entry.attr.ino)
        })
        .collect();
    let all = Growing {
        pool,
        dirs: dirs?,
        each: wishes.each,
    };
    let (mut made, mut size, mut rng) = (0, FIRST.min(wishes.files), Rng::new(wishes.files));
    let started = Instant::now();
    while made < wishes.files {
        let (at, from) = (Instant::now(), made);
        for i in made..size {
            all.create(i)?;
            if i % 500_000 == 499_999 {
                eprintln!("{} files, {} s", i + 1, started.elapsed().as_secs());
            }
        }
        made = size;
        let s = at.elapsed().as_secs_f64();
        println!(
            r#"{{"what":"growing","files":{made},"operations":{},"mean_us":{:.3}}}"#,
            made - from,
            s * 1e6 / (made - from).max(1) as f64
        );
        all.probe(size, &mut rng)?;
        eprintln!(
            "{made} files, {} s, {} MiB beside the arena",
            started.elapsed().as_secs(),
            sampler.beside_now_kib() >> 10
        );
        size = (size * 10).min(wishes.files);
    }
    let at = Instant::now();
    let entries = all.list()?;
    println!(
        r#"{{"what":"readdir","files":{made},"operations":{entries},"mean_us":{:.3}}}"#,
        at.elapsed().as_secs_f64() * 1e6 / entries.max(1) as f64
    );
    // Each directory has `.` and `..`.
    match entries == made + 2 * wishes.dirs.max(1) {
        true => Ok(()),
        false => Err(format!("{made} files were made, {entries} entries listed").into()),
    }
}

#[cfg(test)]
mod tests;
