//! Why a command failed: one sentence for the user, one exit code for scripts.

use super::visible::warn_of;
use keepfs_check::read::ReadError;
use keepfs_fuse::FuseError;
use keepfs_media::DeviceError;
use std::path::{Path, PathBuf};

/// Whose exit codes are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manners {
    /// 1 failed, 2 wrong usage.
    Keepfs,
    /// As fsck(8): 8 could not be done, 16 wrong usage.
    Fsck,
    /// As mount(8): 32 failed, 1 wrong usage.
    Mount,
}

/// A failure, in one sentence that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The words of the command line make no sense, or were a wish for help.
    #[error("{0}")]
    Words(clap::Error),
    /// The command line is in order, but asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The library failed.
    #[error(transparent)]
    Keepfs(#[from] keepfs::Error),
    /// The mount failed.
    #[error(transparent)]
    Fuse(#[from] FuseError),
    /// A pool could not be read.
    #[error("{path}: {source}")]
    Read {
        /// The pool.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// A system call failed.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// An error of the system on a path.
    pub fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
        let path = path.to_owned();
        move |source| Failure::Io { what, path, source }
    }

    /// Whether somebody else uses the device.
    pub fn is_busy(&self) -> bool {
        matches!(
            self,
            Failure::Device(DeviceError::Busy { .. })
                | Failure::Keepfs(keepfs::Error::Device(DeviceError::Busy { .. }))
        )
    }

    /// Tells the user. `name` is what the program was called as.
    pub fn tell(&self, name: &str) {
        match self {
            // Help and version go to standard output and are no failure.
            Failure::Words(words) => drop(words.print()),
            other => warn_of!("{name}: {other}"),
        }
    }

    /// The exit code.
    pub fn code(&self, manners: Manners) -> u8 {
        let usage = match self {
            Failure::Words(words) if !words.use_stderr() => return 0,
            Failure::Words(_) | Failure::Usage(_) => true,
            _ => false,
        };
        match (manners, usage) {
            (Manners::Keepfs, false) => 1,
            (Manners::Keepfs, true) => 2,
            (Manners::Fsck, false) => 8,
            (Manners::Fsck, true) => 16,
            (Manners::Mount, false) => 32,
            (Manners::Mount, true) => 1,
        }
    }
}
