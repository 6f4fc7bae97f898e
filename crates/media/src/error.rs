//! What can go wrong with a device; each message says what, where, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use keepfs_format::shown;
use thiserror::Error;

use crate::PageNo;

/// What is done to pages of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// They are read.
    Read,
    /// They are written.
    Write,
    /// The device is told that they are not needed.
    Discard,
    /// They get room where the file lies.
    Allocate,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Discard => "discard",
            Access::Allocate => "allocate",
        })
    }
}

/// An error of a block device.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The medium or its driver reported an error.
    #[error("cannot {what} page {page} of {device}: {source}; check the medium and its cable (dmesg, smartctl)")]
    Io {
        /// The operation.
        what: Access,
        /// The first page of the operation.
        page: PageNo,
        /// The device's name.
        device: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A flush failed: what was written since the last good one may be lost, wholly or in part.
    #[error(
        "cannot flush {device}: {source}; what was written since the last flush may be lost, check the medium (dmesg, smartctl) before mounting again"
    )]
    Flush {
        /// The device's name.
        device: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The file system that holds a pool's file has no room for it.
    #[error(
        "no room for {device} where it lies: {source}; free space there, or remove files from the pool and trim it (fstrim)"
    )]
    HostFull {
        /// The device's name.
        device: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A pool's file became shorter while it was in use.
    #[error(
        "{device} was cut while in use: it had {pages} pages; what lay behind its end is lost: unmount it, give it its length back (truncate -s {0}), then run `keepfs check`, or take the backup",
        .pages * 4096
    )]
    Cut {
        /// The device's name.
        device: String,
        /// Pages when it was opened.
        pages: u64,
    },
    /// The device has no discard, or the file system below no holes.
    #[error("{device} cannot be told which pages are not needed")]
    NoDiscard {
        /// The device's name.
        device: String,
    },
    /// Pages beyond the end were asked for.
    #[error(
        "pages {page} and {count} following reach beyond the {pages} pages of the device; check whether the device was cut or the pool is damaged"
    )]
    OutOfRange {
        /// The first page asked for.
        page: PageNo,
        /// How many.
        count: u64,
        /// How many there are.
        pages: u64,
    },
    /// A buffer was not whole pages.
    #[error(
        "{bytes} bytes for page {page} are not whole pages of 4096 bytes; this is a mistake in the caller, report it"
    )]
    NotWholePages {
        /// The first page of the operation.
        page: PageNo,
        /// The length of the buffer.
        bytes: usize,
    },
    /// The device was opened read-only.
    #[error("{device} was opened read-only; open it for writing first")]
    ReadOnly {
        /// The device's name.
        device: String,
    },
    /// It cannot be opened for writing: a switch, a read-only file system, a read-only mapping.
    #[error("{path} is write-protected: {how}; it can be read without that (mount -o ro)", path = shown::path(.path))]
    Protected {
        /// What was to be opened.
        path: PathBuf,
        /// What protects it, and what ends that.
        how: &'static str,
    },
    /// The device is gone.
    #[error("{device} is gone; plug it in again, then mount it again")]
    Removed {
        /// The device's name.
        device: String,
    },
    /// The device could not be opened or created.
    #[error("cannot {what} {path}: {source}; check the path and its permissions", path = shown::path(.path))]
    Open {
        /// `open` or `create`.
        what: &'static str,
        /// The path asked for.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Somebody else uses the device.
    #[error("{path} is in use ({by}); unmount it or stop its user first", path = shown::path(.path))]
    Busy {
        /// The path asked for.
        path: PathBuf,
        /// Who uses it, as far as known.
        by: String,
    },
    /// Another machine has the pool that is on it (S-2.12).
    #[error("{device} is in use by {by}; unmount it there first (reading works: -o ro)")]
    Taken {
        /// The device's name.
        device: String,
        /// Who has it, as far as known.
        by: String,
    },
    /// It could not be shown to other machines that the pool is in use, so one of them may have it by now (S-2.12).
    #[error(
        "{device} is not written any more: its block of multi-mount protection could not be written for {seconds} s, and another machine may have the pool by now; check the device (dmesg), then unmount the pool and mount it again"
    )]
    Late {
        /// The device's name.
        device: String,
        /// For how long.
        seconds: u64,
    },
    /// Neither a regular file nor a block device, or of a size that holds no page.
    #[error("{path} cannot hold a pool: {why}; give a regular file or a block device", path = shown::path(.path))]
    Unsuitable {
        /// The path asked for.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}
