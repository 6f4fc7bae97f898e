//! The error enum of this floor and the one table that turns it into an errno.

use keepfs_store::{Abort, Error as StoreError, Stop};
use keepfs_vfs::Errno;

/// Why an operation on files failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// POSIX says so.
    #[error("{0}")]
    Posix(Errno),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Metadata of an inode contradicts the SPEC.
    #[error("inode {ino}: {what}")]
    Damaged {
        /// Whose metadata it is.
        ino: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A data page does not have the CRC-32C its map entry tells, or was lost.
    #[error("inode {ino}: page {index} of the file cannot be read back as it was written")]
    BadPage {
        /// Whose page.
        ino: u64,
        /// Which page of the file.
        index: u64,
    },
    /// The device refused to write data wherever it was tried.
    #[error("file data could not be written: {0}")]
    Refused(StoreError),
    /// A view asked to be run again, which only a transaction may.
    #[error("the store asked to repeat a read")]
    Repeat,
}

/// Result of everything that runs inside a transaction or a view.
pub(crate) type Step<T> = core::result::Result<T, Abort<Error>>;
/// Result of everything that runs outside.
pub(crate) type Result<T> = core::result::Result<T, Error>;

impl From<Errno> for Error {
    fn from(errno: Errno) -> Error {
        Error::Posix(errno)
    }
}

impl From<Error> for Abort<Error> {
    fn from(error: Error) -> Abort<Error> {
        Abort::Fail(error)
    }
}

/// Stops a step with an errno.
pub(crate) fn refuse<T>(errno: Errno) -> Step<T> {
    Err(Abort::Fail(Error::Posix(errno)))
}

/// Stops a step because metadata of `ino` is not as the SPEC says.
pub(crate) fn damaged(ino: u64, what: &'static str) -> Abort<Error> {
    Abort::Fail(Error::Damaged { ino, what })
}

/// The result of a step that ran on a view.
pub(crate) fn seen<T>(step: Step<T>) -> Result<T> {
    step.map_err(|abort| match abort {
        Abort::Fail(error) => error,
        Abort::Retry(Stop::Error(error)) => Error::Store(error),
        Abort::Retry(_) => Error::Repeat,
    })
}

/// Does as much of `most` as one transaction holds: half as often as it touches too many frames. Tells how much it was.
pub(crate) fn fitting(most: u64, mut f: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    let mut count = most;
    loop {
        match f(count) {
            Err(error) if error.is_too_large() && count > 1 => count = count.div_ceil(2),
            other => return other.map(|()| count),
        }
    }
}

impl Error {
    /// Whether the transaction touched more frames than one may: less at a time may do.
    pub(crate) fn is_too_large(&self) -> bool {
        matches!(self, Error::Store(StoreError::TooLarge))
    }

    /// Whether it only means that space ran out.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Error::Store(StoreError::NoSpace))
    }

    /// Whether the device refused to write data wherever it was tried.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Error::Refused(_))
    }

    /// Whether metadata of one inode is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Error::Store(StoreError::Damaged(_))) || self.is_of_one()
    }

    /// Whether it is about the metadata of one file, which is damaged or fenced: what needs it cannot be done, and all else goes on
    /// (S-9.10, S-15.17).
    pub(crate) fn is_of_one(&self) -> bool {
        match self {
            Error::Damaged { .. } => true,
            Error::Store(error) => error.is_of_one(),
            _ => false,
        }
    }

    /// Whether a staged page is lost (S-14.6).
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Error::Store(StoreError::Lost { .. }))
    }

    /// The errno, if POSIX says so.
    pub(crate) fn errno(&self) -> Option<Errno> {
        if let Error::Posix(errno) = self {
            Some(*errno)
        } else {
            None
        }
    }
}

/// The table.
impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        match error {
            Error::Posix(errno) => errno,
            Error::Store(StoreError::NoSpace) => Errno::ENOSPC,
            // Of the file system under the pool (S-2.14).
            Error::Store(error) if error.is_host_full() => Errno::ENOSPC,
            Error::Store(StoreError::ReadOnly(_)) => Errno::EROFS,
            Error::Store(StoreError::Dead) => Errno::EIO,
            other => {
                tracing::error!(error = %other, "operation failed");
                Errno::EIO
            }
        }
    }
}
