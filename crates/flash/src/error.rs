//! What can go wrong in the parts of a flash home; who drives them says what that means and what to do.

use keepfs_media::DeviceError;
use std::sync::Arc;

/// A failure of a part of a flash home.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error("{0}")]
    Device(Arc<DeviceError>),
    /// Guarded memory cannot be had.
    #[error("cannot have {bytes} bytes of guarded memory: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: Arc<std::io::Error>,
    },
    /// The device has no pool that this version can use.
    #[error("{0}")]
    BadPool(String),
    /// The log or memory is not what its sums say.
    #[error("{0}")]
    Damaged(String),
    /// What decides where metadata goes changed in the heap (S-13.9).
    #[error("memory at {address:#x} was changed by something else")]
    Heap {
        /// Where.
        address: usize,
    },
    /// The caller asked for something impossible.
    #[error("{0}")]
    Logic(String),
}

impl Error {
    /// Whether the device is there and failed one operation: the same at another page may succeed.
    pub fn is_device_io(&self) -> bool {
        matches!(self, Error::Device(e) if matches!(**e, DeviceError::Io { .. }))
    }
}

impl From<DeviceError> for Error {
    fn from(e: DeviceError) -> Error {
        Error::Device(Arc::new(e))
    }
}

/// What is wrong with a page of file data on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadData {
    /// The medium does not give it.
    Unreadable,
    /// It has another CRC.
    Checksum,
}

/// What a transaction needs of the staged pages until it is committed (S-14.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Free whole slots.
    pub(crate) slots: usize,
    /// Quarters of pages by which what is staged may grow.
    pub(crate) quarters: usize,
}
