//! What can go wrong with a pool, in sentences for whoever reads the program's output.

use keepfs_media::DeviceError;
use keepfs_media::signature::Signature;
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, OpenError};
use keepfs_vfs::Errno;
use std::path::{Path, PathBuf};

/// Result of everything in this library.
pub type Result<T> = core::result::Result<T, Error>;

/// A failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device could not be opened, read or written.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The pool could not be opened or made.
    #[error("{pool}: {source}", pool = .pool.shown())]
    Pool {
        /// The pool.
        pool: PathBuf,
        /// Why.
        source: keepfs_fs::Error,
    },
    /// It could not be mounted or unmounted.
    #[error(transparent)]
    Mount(#[from] Failure),
    /// An operation on a file failed.
    #[error("cannot {what} {path}: {errno}", path = .path.shown())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file, as it was named.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// Somebody's data is on the device.
    #[error("{pool} holds {signature}; use another device, or --force to overwrite it", pool = .pool.shown())]
    Signature {
        /// The path.
        pool: PathBuf,
        /// What was found.
        signature: Signature,
    },
    /// The file is not empty.
    #[error("{pool} exists and is not empty; choose another name, or --force to overwrite it", pool = .pool.shown())]
    NotEmpty {
        /// The path.
        pool: PathBuf,
    },
    /// A file shall be made, and nobody said how large.
    #[error("{pool} does not exist; say how large it shall be (--size 10G)", pool = .pool.shown())]
    NoSize {
        /// The path.
        pool: PathBuf,
    },
    /// A block device is smaller than the pool that was asked for.
    #[error("{pool} has only {has} bytes, {wanted} were asked for; leave out --size to use all of it", pool = .pool.shown())]
    DeviceTooSmall {
        /// The path.
        pool: PathBuf,
        /// Its bytes.
        has: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// It would be too small for a pool.
    #[error("{pool} would have {has} bytes, and a pool needs at least 2 MiB (--size 2M)", pool = .pool.shown())]
    TooSmall {
        /// The path.
        pool: PathBuf,
        /// Its bytes.
        has: u64,
    },
    /// All of a file shall be allocated, and there is no room for it.
    #[error(
        "there is no room for all {wanted} bytes of {pool} where it lies, {missing} bytes are missing; free as many there, or make it smaller (--size)", pool = .pool.shown())]
    NoRoom {
        /// The path.
        pool: PathBuf,
        /// Its bytes.
        wanted: u64,
        /// Bytes that are missing.
        missing: u64,
    },
    /// A pool shall grow that has all there is.
    #[error("{pool} has {has} bytes, which is all that there is; {how}", pool = .pool.shown())]
    NoMore {
        /// The path.
        pool: PathBuf,
        /// Its bytes.
        has: u64,
        /// How there can be more.
        how: &'static str,
    },
    /// A pool shall get smaller, or as large as it is.
    #[error("{pool} has {has} bytes already, {wanted} were asked for, and a pool does not shrink", pool = .pool.shown())]
    Smaller {
        /// The path.
        pool: PathBuf,
        /// Its bytes.
        has: u64,
        /// The bytes asked for.
        wanted: u64,
    },
    /// The log cannot have the size that was asked for.
    #[error("the log of {pool} can have {least} to {most} bytes, {wanted} were asked for", pool = .pool.shown())]
    LogSize {
        /// The path.
        pool: PathBuf,
        /// Bytes asked for.
        wanted: u64,
        /// Least.
        least: u64,
        /// Most, in a pool of this size.
        most: u64,
    },
    /// A label is too long.
    #[error("the label has {bytes} bytes; at most {max} are allowed")]
    Label {
        /// Bytes of the label.
        bytes: usize,
        /// Most bytes.
        max: usize,
    },
    /// A file could not be prepared.
    #[error("cannot {what} {path}: {source}; check the path and its permissions", path = .path.shown())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Error {
    /// The error number of a failed operation on a file; `EIO` for everything about the device.
    pub fn errno(&self) -> Errno {
        match self {
            Error::File { errno, .. } => *errno,
            _ => Errno::EIO,
        }
    }

    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(Errno) -> Error {
        let path = path.to_owned();
        move |errno| Error::File { what, path, errno }
    }

    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { what, path, source }
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        match error {
            OpenError::Device(error) => Error::Device(error),
            OpenError::Pool { pool, source } => Error::Pool { pool, source },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Device(error) => Failure::Device(error),
            Error::Pool { pool, source } => OpenError::Pool { pool, source }.into(),
            Error::Mount(failure) => failure,
            other => Failure::Other(other.to_string()),
        }
    }
}
