//! Opening a file or a block device: what it is, who else has it, and what is said of it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use keepfs_format::shown;

use super::{FileDevice, FileOptions, Kind, OpenMode};
use crate::DeviceError;
use crate::loops::{self, Beneath};
use crate::mounts::{self, DeviceNumber};

/// A file or device beneath a device, locked so that nobody has it by its own name.
pub(super) struct Below {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The device is nothing but it; else others may use other parts of it.
    pub(super) whole: bool,
}

impl Below {
    /// Errors: `Busy` if somebody uses it otherwise.
    pub(super) fn lock(&self, above: &Path, mode: OpenMode) -> Result<(), DeviceError> {
        let mode = match self.whole {
            true => mode,
            false => OpenMode::ReadOnly,
        };
        lock(&self.path, &self.file, mode).map_err(|error| match error {
            DeviceError::Busy { .. } => busy(above, open_as(&self.path)),
            other => other,
        })
    }
}

fn open_as(path: &Path) -> String {
    format!("another process has it open as {}", shown::path(path))
}

/// Keeps what lies beneath the open `file` from those who come by its own name (S-2.11).
pub(super) fn lock_beneath(path: &Path, file: &File, kind: Kind, mode: OpenMode) -> Result<Vec<Below>, DeviceError> {
    if kind == Kind::Regular {
        return Ok(Vec::new());
    }
    let failed = |source| open_error(path, source);
    let device = DeviceNumber::of(file.metadata().map_err(failed)?.rdev());
    let mut locked = Vec::new();
    for found in loops::beneath(device, mode == OpenMode::ReadWrite).map_err(failed)? {
        match found {
            Beneath::Open {
                path: below,
                file,
                whole,
            } => {
                let below = Below {
                    path: below,
                    file,
                    whole,
                };
                below.lock(path, mode)?;
                locked.push(below);
            }
            // It cannot be locked, but seen to be.
            Beneath::Hidden { path: below, of, .. } => {
                let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
                if loops::is_locked(&locks, of) {
                    return Err(busy(path, open_as(&below)));
                }
            }
        }
    }
    Ok(locked)
}

/// Readers do not mind each other, but a writer by another name.
pub(super) fn refuse_writers_over(path: &Path) -> Result<(), DeviceError> {
    let users = mounts::writers_over(path).map_err(|source| open_error(path, source))?;
    first_of(path, users)
}

fn first_of(path: &Path, users: Vec<mounts::User>) -> Result<(), DeviceError> {
    match users.into_iter().next() {
        Some(user) => Err(busy(path, user.to_string())),
        None => Ok(()),
    }
}

impl FileDevice {
    /// Whether it can be one, without opening it: a FIFO would wait, a device of characters might do something.
    ///
    /// # Errors
    /// `Unsuitable`: it is neither a file nor a block device; `Open`: it cannot be found.
    pub fn suits(path: &Path) -> Result<(), DeviceError> {
        kind_of(path).map(drop)
    }
}

pub(super) fn kind_of(path: &Path) -> Result<Kind, DeviceError> {
    let kind = std::fs::metadata(path)
        .map_err(|source| open_error(path, source))?
        .file_type();
    if kind.is_file() {
        return Ok(Kind::Regular);
    }
    if kind.is_block_device() {
        return Ok(Kind::Block);
    }
    Err(unsuitable(path, "it is neither a regular file nor a block device"))
}

pub(super) fn open_flags(kind: Kind, mode: OpenMode, options: FileOptions) -> OpenOptions {
    let mut flags = 0;
    if options.direct {
        flags |= libc::O_DIRECT;
    }
    if kind == Kind::Block && mode == OpenMode::ReadWrite {
        flags |= libc::O_EXCL;
    }
    let mut open = OpenOptions::new();
    open.read(true).write(mode == OpenMode::ReadWrite).custom_flags(flags);
    open
}

pub(super) fn lock(path: &Path, file: &File, mode: OpenMode) -> Result<(), DeviceError> {
    let locked = match mode {
        OpenMode::ReadWrite => file.try_lock(),
        OpenMode::ReadOnly => file.try_lock_shared(),
    };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => busy(path, "another process has it open".to_owned()),
        TryLockError::Error(source) => open_error(path, source),
    })
}

/// The kernel opens a write-protected block device for writing as if nothing were wrong.
pub(super) fn refuse_if_unwritable(path: &Path, kind: Kind) -> Result<(), DeviceError> {
    if kind == Kind::Block && mounts::is_write_protected(path).map_err(|source| open_error(path, source))? {
        return Err(protected(path));
    }
    refuse_if_mounted(path)
}

fn refuse_if_mounted(path: &Path) -> Result<(), DeviceError> {
    let users = mounts::users_of(path).map_err(|source| open_error(path, source))?;
    first_of(path, users)
}

pub(super) fn busy(path: &Path, by: String) -> DeviceError {
    DeviceError::Busy {
        path: path.to_owned(),
        by,
    }
}

/// A file is not protected itself: what it lies on is.
pub(super) fn protected(path: &Path) -> DeviceError {
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    DeviceError::Protected {
        path: path.to_owned(),
        how: match is_file {
            true => {
                "the file system that it lies on is mounted read-only; make that one writable (mount -o remount,rw)"
            }
            false => "end the protection of the device (blockdev --setrw)",
        },
    }
}

pub(super) fn unsuitable(path: &Path, why: &str) -> DeviceError {
    DeviceError::Unsuitable {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

pub(super) fn open_error(path: &Path, source: io::Error) -> DeviceError {
    match source.raw_os_error() {
        Some(libc::EBUSY) => return busy(path, "mounted or held by another driver".to_owned()),
        Some(libc::EROFS) => return protected(path),
        _ => {}
    }
    DeviceError::Open {
        what: "open",
        path: path.to_owned(),
        source,
    }
}
