//! What can go wrong with an open pool: one enum, each with a sentence that says what, where and what to do.

use core::fmt;
use keepfs_digest::Imbalance;
use keepfs_format::{MetaId, Space};
use keepfs_media::{Access, DeviceError};
use std::sync::Arc;

/// A failure of a pool.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error("{0}")]
    Device(Arc<DeviceError>),
    /// Memory for the arena could not be had.
    #[error("cannot make the arena of {bytes} bytes: {source}{}", remedy(.source))]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: Arc<std::io::Error>,
    },
    /// Memory for more than the arena has cannot be had.
    #[error("the process cannot have {bytes} bytes of memory more")]
    NoRoom {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The guard that was asked for cannot be had.
    #[error("cannot guard metadata in memory as asked: {0}")]
    Guard(String),
    /// The bytes are not a pool that this version can use.
    #[error("not a usable Keepfs pool: {0}")]
    BadPool(String),
    /// Metadata is not what its checksum, identity or the log says.
    #[error("damaged metadata: {0}; run `keepfs check` on the pool")]
    Damaged(String),
    /// The same of a metablock of one owner (S-15.17): what needs it cannot be done, and all else can.
    #[error("damaged metadata: {what}; run `keepfs check` on the pool")]
    DamagedOne {
        /// Which metablock.
        id: MetaId,
        /// What is wrong.
        what: String,
    },
    /// A frame in memory changed other than through the door (promise C-3).
    #[error(
        "metadata in memory was changed by something else ({id}): checksum {found:#018x}, expected {expected:#018x}; nothing of it was written, remount the pool"
    )]
    Scribble {
        /// Which metablock.
        id: MetaId,
        /// CRC-64 of the bytes found.
        found: u64,
        /// The rolling checksum.
        expected: u64,
    },
    /// What decides where metadata goes changed in the heap, other than by who set it (S-13.9, promise C-3).
    #[error(
        "memory at {address:#x}, which tells where metadata lies, was changed by something else; nothing of it was written, remount the pool"
    )]
    Heap {
        /// Where.
        address: usize,
    },
    /// A transaction was taken back, and what it had changed in a metablock is not known (S-13.10).
    #[error(
        "what a transaction that was taken back had changed in {id} is not known; nothing of it was written, remount the pool"
    )]
    NotBrought {
        /// Which metablock.
        id: MetaId,
    },
    /// What a transaction was about to tell the log changed in the heap (S-13.16, promise C-3).
    #[error(
        "what a transaction was about to log was changed in memory by something else; it was taken back, do it again"
    )]
    Records,
    /// A metablock that could not be repaired (S-15.17).
    #[error("{id} is damaged beyond repair and is fenced off: `keepfs damage list` says whose it is")]
    Fenced {
        /// Which metablock.
        id: MetaId,
    },
    /// A page of a file that was staged is lost (S-14.6).
    #[error("page {index} of inode {ino} is lost: write it anew, or restore the file")]
    Lost {
        /// Inode.
        ino: u64,
        /// Page of the file.
        index: u64,
    },
    /// Redo in the session segment changed other than by a commit (S-14.4, promise C-3).
    #[error(
        "the redo of transaction {seq} was changed in memory by something else; its group was not written, remount the pool"
    )]
    Redo {
        /// Number of the transaction.
        seq: u64,
    },
    /// A transaction contradicted itself; it was rolled back (SPEC section 17).
    #[error("a change contradicted itself and was taken back: {0}; nothing is damaged, please report it")]
    Unbalanced(Unbalanced),
    /// Keepfs itself asked for something impossible.
    #[error("internal error: {0}; please report it")]
    Logic(String),
    /// A transaction touches more frames than one may; with less to do it may fit.
    #[error("a change touches more metablocks than one transaction may")]
    TooLarge,
    /// No page is free.
    #[error("no space left on the pool")]
    NoSpace,
    /// The pool is mounted read-only, or a failure made it so.
    #[error("the pool is read-only: {0}")]
    ReadOnly(String),
    /// The pool was shut down.
    #[error("the pool was shut down; unmount and mount it again")]
    Dead,
}

impl Error {
    /// Metablock `id` is not what it should be.
    pub fn damaged(id: MetaId, what: String) -> Error {
        match may_be_fenced(id) {
            true => Error::DamagedOne { id, what },
            false => Error::Damaged(what),
        }
    }

    /// Whether it is about metadata of one owner that is damaged or fenced: it costs what needs that, and all else goes on
    /// (S-9.10, S-15.17).
    pub fn is_of_one(&self) -> bool {
        matches!(self, Error::DamagedOne { .. } | Error::Fenced { .. })
    }

    /// Whether memory is damaged that the next server does not take over but makes anew from device, log and redo (S-16.8).
    pub fn is_of_this_memory(&self) -> bool {
        matches!(
            self,
            Error::Scribble { .. } | Error::Heap { .. } | Error::NotBrought { .. }
        )
    }

    /// Whether the file system that holds the pool's file has no room for more (S-2.14).
    pub fn is_host_full(&self) -> bool {
        matches!(self, Error::Device(e) if matches!(**e, DeviceError::HostFull { .. }))
    }

    /// Whether the device did not take what was written, or not for good: what it has may still be read (S-16.33).
    pub fn is_unwritten(&self) -> bool {
        let Error::Device(error) = self else { return false };
        match &**error {
            DeviceError::Io { what, .. } => *what != Access::Read,
            DeviceError::Flush { .. } | DeviceError::HostFull { .. } | DeviceError::Cut { .. } => true,
            _ => false,
        }
    }

    /// Whether a server that takes another's place and meets this reads what there is, and writes nothing (S-16.6, S-16.33).
    pub fn ends_writing_of_a_resume(&self) -> bool {
        matches!(self, Error::Damaged(_)) || self.is_unwritten()
    }

    /// Whether the device is there and failed one operation: the same at another page may succeed.
    pub fn is_device_io(&self) -> bool {
        matches!(self, Error::Device(e) if matches!(**e, DeviceError::Io { .. }))
    }
}

/// What helps where memory cannot be had: a smaller arena only where there is too little of it.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::OutOfMemory | ErrorKind::StorageFull => "; mount with a smaller one (-o arena=)",
        ErrorKind::FileTooLarge => "; raise the limit of a file's size (ulimit -f)",
        // Each region is opened once more there, to read it.
        ErrorKind::NotFound => "; mount /proc here",
        _ if error.raw_os_error() == Some(libc::EMFILE) => "; raise the limit of open files (ulimit -n)",
        _ => "",
    }
}

/// Whether a metablock is of one owner, so that it can be fenced off and all else goes on (S-15.17).
pub fn may_be_fenced(id: MetaId) -> bool {
    matches!(id.space(), Some(Space::Nodes | Space::Inodes)) && id.as_map().is_none()
}

impl From<keepfs_vault::Error> for Error {
    fn from(e: keepfs_vault::Error) -> Error {
        use keepfs_vault::Error as Vault;
        match e {
            Vault::Memory { bytes, source } => Error::Memory { bytes, source },
            Vault::Code(what) => Error::BadPool(what),
            Vault::Damaged(what) => Error::Damaged(what),
            Vault::Logic(what) => Error::Logic(what),
        }
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

/// What was wrong with a transaction that was rolled back.
#[derive(Clone, Debug)]
pub struct Unbalanced(Arc<Vec<Imbalance>>);

impl Unbalanced {
    /// Each equation that did not balance, with the items that one side has alone.
    pub fn imbalances(&self) -> &[Imbalance] {
        &self.0
    }
}

impl From<Arc<Vec<Imbalance>>> for Unbalanced {
    fn from(imbalances: Arc<Vec<Imbalance>>) -> Unbalanced {
        Unbalanced(imbalances)
    }
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, imbalance) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { " | " };
            write!(f, "{comma}{imbalance}")?;
        }
        Ok(())
    }
}
