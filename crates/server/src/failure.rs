//! Why something could not be done: one sentence for whoever asked for it.

use crate::claim::OpenError;
use crate::visible::Shown;
use keepfs_check::read::ReadError;
use keepfs_fuse::FuseError;
use keepfs_media::DeviceError;
use std::path::{Path, PathBuf};

/// A failure, in one sentence that says what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something was asked for that does not exist.
    #[error("{0}")]
    Usage(String),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A pool could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The mount failed.
    #[error(transparent)]
    Fuse(#[from] FuseError),
    /// A pool could not be read.
    #[error("{}: {source}", .path.shown())]
    Read {
        /// The pool.
        path: PathBuf,
        /// Why.
        source: ReadError,
    },
    /// A system call failed.
    #[error("cannot {what} {}: {source}", .path.shown())]
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
            Failure::Device(DeviceError::Busy { .. }) | Failure::Open(OpenError::Device(DeviceError::Busy { .. }))
        )
    }
}
