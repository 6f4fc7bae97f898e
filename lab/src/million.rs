//! Many files on an arena far smaller than their metadata: how operations grow, what lies in memory beside the arena,
//! how long opening and closing take, how long a checkpoint stops others (BARS P-5, P-7, P-8, P-9; S-10.1).

pub mod barrier;
pub mod big_dir;
pub mod files;
pub mod grow;
pub mod memory;
pub mod order;

use keepfs_check::Image;
use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Device, PageNo};
use keepfs_store::{FormatOptions, StoreOptions};
use keepfs_vfs::{FileKind, NewInode, Vfs};
use memory::Sampler;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Why a run failed.
pub type Failure = Box<dyn std::error::Error>;

/// A pool in a file, mounted in this process.
pub struct Pool {
    /// The device.
    pub device: Arc<dyn Device>,
    /// The mounted volume.
    pub volume: Arc<Volume>,
}

/// How the pools of a run are opened.
pub fn options(arena_mib: usize) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            arena_bytes: arena_mib << 20,
            ..StoreOptions::default()
        },
        ..VolumeOptions::default()
    }
}

impl Pool {
    /// A new pool of `pages` pages.
    pub fn create(image: &Path, pages: u64, arena_mib: usize) -> Result<Pool, Failure> {
        match std::fs::remove_file(image) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
            _ => {}
        }
        let device: Arc<dyn Device> = Arc::new(FileDevice::create(image, pages, FileOptions::default())?);
        Volume::format(device.clone(), &FormatOptions::default())?;
        let volume = Volume::open(device.clone(), &options(arena_mib))?;
        Ok(Pool { device, volume })
    }

    /// Opens one that is there; `what` is told with the time it took.
    pub fn open(image: &Path, arena_mib: usize, what: &str, sampler: &Sampler) -> Result<Pool, Failure> {
        let device: Arc<dyn Device> = Arc::new(FileDevice::open(image, OpenMode::ReadWrite, FileOptions::default())?);
        let started = Start::now();
        let volume = Volume::open(device.clone(), &options(arena_mib))?;
        tell(what, started, 1, sampler);
        Ok(Pool { device, volume })
    }

    /// As if power were cut.
    pub fn cut(self) {
        self.volume.store().kill();
        // It fails, since nothing reaches the device any more; this only ends the threads.
        let _ = self.volume.unmount();
        self.leave();
    }

    /// Unmounts, told with the time it took.
    pub fn close(self, sampler: &Sampler) -> Result<(), Failure> {
        let started = Start::now();
        self.volume.unmount()?;
        tell("unmount", started, 1, sampler);
        self.leave();
        Ok(())
    }

    /// Waits until no thread of the volume has the device any more.
    fn leave(self) {
        let Pool { device, volume } = self;
        drop(volume);
        while Arc::strong_count(&device) > 1 {
            std::thread::yield_now();
        }
    }
}

/// What the walk reads.
pub struct Seen(pub Arc<dyn Device>);

impl Image for Seen {
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// An inode as root makes it.
pub fn new_inode(kind: FileKind) -> NewInode {
    NewInode {
        mode: kind.type_bits() | 0o755,
        umask: 0o22,
        uid: 0,
        gid: 0,
        rdev: 0,
    }
}

/// A moment, by the clock and by the processor time that all threads of this process have used.
#[derive(Clone, Copy)]
pub struct Start {
    clock: Instant,
    cpu_s: f64,
}

impl Start {
    /// Now.
    pub fn now() -> Start {
        Start {
            clock: Instant::now(),
            cpu_s: cpu_s(),
        }
    }
}

/// Processor time of all threads, seconds; the kernel tells it in hundredths (proc(5)).
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |i| -> f64 {
        let word = behind_name.split_whitespace().nth(i);
        word.and_then(|w| w.parse().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / 100.0
}

/// One line: what, how often, how long by the clock and in processor time (which a loaded machine does not stretch).
pub fn tell(what: &str, started: Start, n: u64, sampler: &Sampler) {
    let (s, cpu) = (started.clock.elapsed().as_secs_f64(), cpu_s() - started.cpu_s);
    let each = |s: f64| s * 1e6 / n.max(1) as f64;
    println!(
        "{what:34} {n:9} in {s:8.3} s = {:10.2} us each, {:8.2} us of processor; {} MiB beside the arena",
        each(s),
        each(cpu),
        sampler.beside_now_kib() >> 10
    );
}

/// What checkpoints cost those who began transactions.
pub fn tell_stops(volume: &Volume) {
    let seen = volume.store().stats();
    let us = |ns: u64| ns as f64 / 1e3;
    for (what, times) in [
        ("gate shut by a barrier", seen.barrier),
        ("begin waited at the gate", seen.gate),
        ("begin waited for room", seen.throttle),
    ] {
        println!(
            "{what:28} {:9} times; half below {} us, 99 % below {} us, longest {:.0} us",
            times.total(),
            times.below_us(500),
            times.below_us(990),
            us(times.ns_max)
        );
    }
    println!("stats: {seen:?}");
}
