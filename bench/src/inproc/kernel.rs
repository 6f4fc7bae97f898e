//! A mounted file system: the same calls, each through the kernel.

use super::calls::{Calls, Traffic};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory of a mounted file system.
pub struct Kernel {
    root: PathBuf,
    /// Statistics of the block device that it lies on.
    stat: PathBuf,
}

impl Kernel {
    /// What is mounted at `root`. Errors: it does not lie on a block device.
    pub fn at(root: &Path) -> Result<Kernel> {
        let device = std::fs::metadata(root)?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let kernel = Kernel {
            root: root.to_owned(),
            stat: format!("/sys/dev/block/{major}:{minor}/stat").into(),
        };
        kernel.traffic().map(|_| kernel)
    }

    /// What is mounted at `root`, whose device, if it has one, is not asked for its traffic.
    pub fn unasked(root: &Path) -> Kernel {
        Kernel {
            root: root.to_owned(),
            stat: PathBuf::new(),
        }
    }

    fn opened(dir: &OwnedFd, name: &[u8], flags: OFlags) -> Result<File> {
        let mode = Mode::from_raw_mode(0o644);
        let file = rustix::fs::openat(dir, name, flags | OFlags::RDWR | OFlags::CLOEXEC, mode)?;
        Ok(file.into())
    }
}

impl Calls for Kernel {
    type Dir = OwnedFd;
    type File = File;
    type Made = ();

    fn directory(&self, name: &str) -> Result<OwnedFd> {
        let path = self.root.join(name);
        std::fs::create_dir(&path)?;
        Ok(File::open(path)?.into())
    }
    fn make(&self, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        let mode = Mode::from_raw_mode(0o644);
        Ok(rustix::fs::mknodat(dir, name, FileType::RegularFile, mode, 0)?)
    }
    fn release(&self, (): ()) {}
    fn lookup(&self, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }
    fn create(&self, dir: &OwnedFd, name: &[u8]) -> Result<File> {
        Self::opened(dir, name, OFlags::CREATE | OFlags::EXCL | OFlags::APPEND)
    }
    fn open(&self, dir: &OwnedFd, name: &[u8], append: bool) -> Result<File> {
        let flags = if append { OFlags::APPEND } else { OFlags::empty() };
        Self::opened(dir, name, flags)
    }
    fn close(&self, file: File) {
        drop(file);
    }
    fn read(&self, file: &File, offset: u64, buf: &mut [u8]) -> Result<usize> {
        file.read_at(buf, offset)
    }
    fn write(&self, file: &File, offset: u64, data: &[u8]) -> Result<()> {
        file.write_all_at(data, offset)
    }
    fn append(&self, file: &File, data: &[u8]) -> Result<()> {
        // Opened with O_APPEND: the offset is not looked at (pwrite(2), BUGS).
        file.write_all_at(data, 0)
    }
    fn fsync(&self, file: &File) -> Result<()> {
        file.sync_all()
    }
    fn rename(&self, dir: &OwnedFd, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(rustix::fs::renameat(dir, from, dir, to)?)
    }
    fn link(&self, dir: &OwnedFd, from: &[u8], to: &[u8]) -> Result<()> {
        Ok(rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?)
    }
    fn chmod(&self, dir: &OwnedFd, mode: u32) -> Result<()> {
        Ok(rustix::fs::fchmod(dir, Mode::from_raw_mode(mode))?)
    }
    fn touch(&self, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        Ok(rustix::fs::utimensat(dir, name, &times, AtFlags::empty())?)
    }
    fn unlink(&self, dir: &OwnedFd, name: &[u8]) -> Result<()> {
        Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
    }
    fn settle(&self) -> Result<()> {
        Ok(())
    }
    fn traffic(&self) -> Result<Traffic> {
        let text = std::fs::read_to_string(&self.stat)?;
        let field = |at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
        // Documentation/block/stat.rst: field 7 is written sectors of 512 bytes, field 16 flushes.
        match (field(6), field(15)) {
            (Some(sectors), Some(flushes)) => Ok(Traffic {
                bytes: sectors * 512,
                flushes,
            }),
            _ => Err(Error::other(format!("{}: {text}", self.stat.display()))),
        }
    }
}
