//! Many files on an arena far smaller than their metadata: created in random order, then looked up, appended to,
//! renamed and unlinked at random; evictions and resident memory are told, and the walk judges the result.
//!
//! `cargo run --release -p keepfs-lab --bin million -- [--files N] [--changes N] [--arena MIB] [--image PATH]`

use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Device, PageNo};
use keepfs_store::{FormatOptions, StoreOptions};
use keepfs_vfs::ops::Rng;
use keepfs_vfs::{Errno, Ino, NewInode, RenameFlags, Vfs, WriteHow, XattrHow};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// What the command line asks for.
struct Wishes {
    files: u64,
    changes: u64,
    arena_mib: usize,
    image: PathBuf,
}

fn wishes() -> Result<Wishes, String> {
    let mut w = Wishes {
        files: 1_000_000,
        changes: 100_000,
        arena_mib: 64,
        image: std::env::temp_dir().join("keepfs-million.img"),
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|e| format!("{flag} {value}: {e}"));
        match flag.as_str() {
            "--files" => w.files = number()?,
            "--changes" => w.changes = number()?,
            "--arena" => w.arena_mib = number()? as usize,
            "--image" => w.image = value.into(),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(w)
}

/// The name of file `i`: 20 bytes.
fn name(i: u64) -> Vec<u8> {
    format!("{:020}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes()
}

/// The order of creation: every number below `n` once, as if shuffled.
fn shuffled(n: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..n).collect();
    let mut rng = Rng::new(seed);
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    order
}

struct Run<'v> {
    volume: &'v Volume,
    dirs: Vec<Ino>,
}

impl Run<'_> {
    fn dir(&self, i: u64) -> Ino {
        self.dirs[(i % self.dirs.len() as u64) as usize]
    }

    fn create(&self, i: u64) -> Result<(), Errno> {
        let new = NewInode {
            mode: 0o100644,
            umask: 0o22,
            uid: 0,
            gid: 0,
            rdev: 0,
        };
        let ino = self.volume.mknod(self.dir(i), &name(i), &new)?.attr.ino;
        self.volume.write(ino, 0, &[i as u8; 1024], WriteHow::default())?;
        self.volume
            .setxattr(ino, b"user.number", &i.to_le_bytes(), XattrHow::default())?;
        self.volume.forget(ino, 1);
        Ok(())
    }

    fn change(&self, i: u64, what: u64) -> Result<(), Errno> {
        let entry = match self.volume.lookup(self.dir(i), &name(i)) {
            Err(Errno::ENOENT) => return Ok(()),
            other => other?,
        };
        let ino = entry.attr.ino;
        match what {
            0 => {
                let value = self.volume.getxattr(ino, b"user.number")?;
                assert_eq!(value, i.to_le_bytes(), "the attribute of file {i}");
            }
            1 => {
                let how = WriteHow {
                    append: true,
                    ..WriteHow::default()
                };
                self.volume.write(ino, 0, &[7; 300], how)?;
            }
            2 => {
                let to = [&name(i)[..19], b"x"].concat();
                self.volume
                    .rename(self.dir(i), &name(i), self.dir(i + 1), &to, RenameFlags::default())?;
            }
            _ => self.volume.unlink(self.dir(i), &name(i))?,
        }
        self.volume.forget(ino, 1);
        Ok(())
    }
}

/// Resident memory of this process in KiB, as the kernel tells it.
fn resident_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(field));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

struct Seen(Arc<dyn Device>);

impl keepfs_audit::Image for Seen {
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

fn tell(what: &str, started: Instant, n: u64) {
    let s = started.elapsed().as_secs_f64();
    println!(
        "{what:24} {n:9} in {s:8.2} s = {:8.2} us each; resident {} MiB",
        s * 1e6 / n.max(1) as f64,
        resident_kib("VmRSS:") / 1024
    );
}

fn run(w: &Wishes) -> Result<(), Box<dyn std::error::Error>> {
    let pages = w.files * 2 + 262_144;
    let _ = std::fs::remove_file(&w.image);
    let device: Arc<dyn Device> = Arc::new(FileDevice::create(&w.image, pages, FileOptions::default())?);
    Volume::format(device.clone(), &FormatOptions::default())?;
    let store = StoreOptions {
        arena_bytes: w.arena_mib << 20,
        ..StoreOptions::default()
    };
    let volume = Volume::open(
        device.clone(),
        &VolumeOptions {
            store,
            ..VolumeOptions::default()
        },
    )?;
    let new = NewInode {
        mode: 0o040755,
        umask: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let dirs: Result<Vec<Ino>, Errno> = (0..16)
        .map(|d| Ok(volume.mknod(Ino::ROOT, format!("dir{d}").as_bytes(), &new)?.attr.ino))
        .collect();
    let run = Run {
        volume: &volume,
        dirs: dirs?,
    };
    let started = Instant::now();
    for i in shuffled(w.files, 1) {
        run.create(i)?;
    }
    tell("create + 1 KiB + xattr", started, w.files);
    let mut rng = Rng::new(2);
    for (what, label) in ["lookup + getxattr", "append 300", "rename", "unlink"]
        .into_iter()
        .enumerate()
    {
        let started = Instant::now();
        for _ in 0..w.changes {
            run.change(rng.below(w.files), what as u64)?;
        }
        tell(label, started, w.changes);
    }
    let started = Instant::now();
    volume.syncfs()?;
    tell("sync", started, 1);
    println!("crash: the pool is opened again without closing it");
    let (frames, dirty, evictions) = volume.store().arena_figures();
    println!(
        "arena {frames} frames, {dirty} dirty, {evictions} evictions; {:?}",
        volume.store().stats()
    );
    volume.store().kill();
    // Power is cut: this only ends the threads.
    let _ = volume.unmount();
    drop(volume);
    drop(device);
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&w.image, OpenMode::ReadWrite, FileOptions::default())?);
    let started = Instant::now();
    let volume = Volume::open(device.clone(), &VolumeOptions::default())?;
    tell("mount after the crash", started, 1);
    let started = Instant::now();
    volume.unmount()?;
    tell("unmount", started, 1);
    drop(volume);
    let started = Instant::now();
    let report = keepfs_audit::walk(&Seen(device), &keepfs_audit::Options::default());
    tell("walk", started, report.counts.inodes);
    println!("peak resident memory {} MiB", resident_kib("VmHWM:") / 1024);
    std::fs::remove_file(&w.image)?;
    match report.errors().next() {
        Some(first) => Err(format!("the walk found errors, first: {first}").into()),
        None if evictions == 0 && w.files > 200_000 => {
            Err("nothing was evicted: the arena is too large for this".into())
        }
        None => Ok(()),
    }
}

fn main() {
    let done = wishes().map_err(Into::into).and_then(|w| run(&w));
    if let Err(error) = done {
        eprintln!("million: {error}");
        std::process::exit(1);
    }
}
