//! The volume by itself, on a device in memory: large directories, sparse files, full pools, threads, the oracle, the operation log.

mod aged;
mod allocated;
mod anothers;
mod bad_pages;
mod crowded;
mod damaged_redo;
mod directories;
mod fixed;
mod flushes;
mod frozen;
mod giving_way;
mod golden;
mod hit_redo;
mod holes;
mod images;
mod life;
mod lost;
mod lost_metadata;
mod model;
mod oplog;
mod refused;
mod reopening;
mod rest;
mod scribbled;
mod shrinking;
mod small_files;
mod space;
mod sparse;
mod threads;
mod unwritable;

use keepfs_check::{Image, Options, walk};
use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Device, PageNo};
use keepfs_vfs::{Direct, Entry, FileKind, Ino, NewInode, Result, Time, Vfs, WriteHow};
use std::sync::Arc;

/// A pool in memory and the volume on it.
struct Pool {
    device: Arc<dyn Device>,
    volume: Arc<Volume>,
}

struct Seen<'a>(&'a dyn Device);

impl Image for Seen<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> core::result::Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

fn options(background: bool) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            background,
            ..StoreOptions::default()
        },
        background,
        clock: Arc::new(|| Time { sec: 1 << 33, nsec: 0 }),
        ..VolumeOptions::default()
    }
}

/// So that another server can take the place of one that dies.
fn lasting() -> VolumeOptions {
    let mut options = options(false);
    options.store.lasting = true;
    options
}

impl Pool {
    /// A new pool of `pages` pages without threads.
    fn new(pages: u64) -> Pool {
        Pool::with(pages, false)
    }

    fn with(pages: u64, background: bool) -> Pool {
        Pool::made(pages, background, &FormatOptions::default())
    }

    /// As [`Pool::new`], for tests (S-2.8): its power can be cut.
    fn for_tests(pages: u64) -> Pool {
        let format = FormatOptions {
            test: true,
            ..FormatOptions::default()
        };
        Pool::made(pages, false, &format)
    }

    /// As [`Pool::new`], with a key of the hashes of names that is not drawn.
    fn seeded(pages: u64, seed: u64) -> Pool {
        let format = FormatOptions {
            name_seed: Some([seed, seed]),
            ..FormatOptions::default()
        };
        Pool::made(pages, false, &format)
    }

    fn made(pages: u64, background: bool, format: &FormatOptions) -> Pool {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(pages));
        Volume::format(device.clone(), format).expect("format");
        let volume = Volume::open(device.clone(), &options(background)).expect("open");
        Pool { device, volume }
    }

    /// Unmounts and opens again.
    fn reopen(self) -> Pool {
        self.volume.unmount().expect("unmount");
        drop(self.volume);
        let volume = Volume::open(self.device.clone(), &options(false)).expect("open");
        Pool {
            device: self.device,
            volume,
        }
    }

    /// Unmounts; the offline walk, which reads every data page too, must find nothing.
    fn finish(self) {
        self.volume.unmount().expect("unmount");
        drop(self.volume);
        let report = walk(&Seen(&*self.device), &Options { data: true, limit: 20 });
        assert!(report.findings.is_empty(), "the walk found {:#?}", report.findings);
    }
}

/// An inode as root makes it.
fn new(kind: FileKind) -> NewInode {
    NewInode::by_root(kind.type_bits() | 0o755)
}

/// Makes a file or directory and gives its lookup back.
fn make(vfs: &dyn Vfs, parent: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    let Entry { attr } = vfs.mknod(parent, name.as_bytes(), &new(kind))?;
    vfs.forget(attr.ino, 1);
    Ok(attr.ino)
}

/// Looks a name up and gives the lookup back.
fn find(vfs: &dyn Vfs, parent: Ino, name: &str) -> Result<Ino> {
    let Entry { attr } = vfs.lookup(parent, name.as_bytes())?;
    vfs.forget(attr.ino, 1);
    Ok(attr.ino)
}

/// Writes all of `data`.
fn write(vfs: &dyn Vfs, ino: Ino, offset: u64, data: &[u8]) {
    assert_eq!(
        vfs.write(ino, offset, data, WriteHow::default()).expect("write"),
        data.len()
    );
}

/// Reads up to `len` bytes.
fn read(vfs: &dyn Vfs, ino: Ino, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xEE; len];
    let count = vfs.read(ino, offset, &mut buf).expect("read");
    buf.truncate(count);
    buf
}
