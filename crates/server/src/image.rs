//! A pool's device as the checker wants it: page by page, pages counted; read-only but for a repair.

use crate::failure::Failure;
use crate::open::OpenOptions;
use keepfs_check::Image;
use keepfs_format::PAGE;
use keepfs_media::file::{FileDevice, FileOptions, Handed, OpenMode};
use keepfs_media::{Class, Device, PageNo, signature};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where pages come from.
enum Source {
    /// A device that nobody writes to meanwhile.
    Alone(Box<FileDevice>),
    /// A file that is looked at although somebody may write to it.
    Live { file: File, pages: u64 },
}

/// A device.
pub struct DeviceImage {
    source: Source,
    read: AtomicU64,
}

impl DeviceImage {
    /// Opens a device; writers are kept out as long as this lives. Errors: `Busy` if it is mounted for writing.
    pub fn open(path: &Path) -> Result<DeviceImage, Failure> {
        let device = FileDevice::open(path, OpenMode::ReadOnly, FileOptions::default())?;
        Ok(DeviceImage {
            source: Source::Alone(Box::new(device)),
            read: AtomicU64::new(0),
        })
    }

    /// Opens a device to write to it; everybody else is kept out as long as this lives. Errors: `Busy` if it is in use.
    pub fn open_for_writing(path: &Path) -> Result<DeviceImage, Failure> {
        let device = FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default())?;
        Ok(DeviceImage {
            source: Source::Alone(Box::new(device)),
            read: AtomicU64::new(0),
        })
    }

    /// Writes a page of a device that was opened for it.
    pub fn write(&self, page: u64, bytes: &[u8; PAGE], is_superblock: bool) -> Result<(), Failure> {
        let class = match is_superblock {
            true => Class::Superblock,
            false => Class::Metadata,
        };
        match &self.source {
            Source::Alone(device) => Ok(device.write(PageNo(page), bytes, class)?),
            Source::Live { .. } => Err(Failure::Other("a pool in use is not written to".into())),
        }
    }

    /// What of another format stands on it.
    pub fn foreign(&self) -> Result<Option<&'static str>, Failure> {
        let Source::Alone(device) = &self.source else {
            return Ok(None);
        };
        let found = signature::detect(&**device)?.map(|signature| signature.name);
        Ok(found.filter(|name| !name.to_lowercase().contains("keepfs")))
    }

    /// Makes durable what was written.
    pub fn flush(&self) -> Result<(), Failure> {
        match &self.source {
            Source::Alone(device) => Ok(device.flush()?),
            Source::Live { .. } => Ok(()),
        }
    }

    /// A device that another process of ours had claimed and handed over, with its locks.
    pub fn handed(path: &Path, device: Handed, options: &OpenOptions) -> Result<DeviceImage, Failure> {
        // Its lock, which is the other process's too, stays what it is.
        let mode = match options.read_only {
            true => OpenMode::ReadOnly,
            false => OpenMode::ReadWrite,
        };
        let file = FileOptions { direct: options.direct };
        let device = FileDevice::adopt(path, device, mode, file)?;
        Ok(DeviceImage {
            source: Source::Alone(Box::new(device)),
            read: AtomicU64::new(0),
        })
    }

    /// Opens a device whoever uses it.
    pub fn open_live(path: &Path) -> Result<DeviceImage, Failure> {
        FileDevice::suits(path)?;
        let mut file = File::open(path).map_err(Failure::io("open", path))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(Failure::io("measure", path))?;
        let pages = bytes / PAGE as u64;
        Ok(DeviceImage {
            source: Source::Live { file, pages },
            read: AtomicU64::new(0),
        })
    }

    /// Pages read so far.
    pub fn pages_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Image for DeviceImage {
    fn pages(&self) -> u64 {
        match &self.source {
            Source::Alone(device) => device.pages(),
            Source::Live { pages, .. } => *pages,
        }
    }

    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String> {
        self.read.fetch_add(1, Ordering::Relaxed);
        match &self.source {
            Source::Alone(device) => device.read(PageNo(page), buf).map_err(|e| e.to_string()),
            Source::Live { file, pages } if page < *pages => {
                let read = file.read_exact_at(buf, page * PAGE as u64);
                read.map_err(|e| e.to_string())
            }
            Source::Live { .. } => Err("no such page".into()),
        }
    }
}
