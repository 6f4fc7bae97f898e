//! What can go wrong with a mount, in sentences for the person who typed the command.

use std::io;
use std::path::PathBuf;

use keepfs_format::shown;

/// Why a mount could not be made, served or taken down.
#[derive(Debug, thiserror::Error)]
pub enum FuseError {
    /// `/dev/fuse` is not there.
    #[error("/dev/fuse is missing: load the fuse kernel module (modprobe fuse) or give the container the device")]
    NoDevice,
    /// `/dev/fuse` or mount(2) refused us.
    #[error("mounting needs root (CAP_SYS_ADMIN): {what} was refused")]
    NotPermitted {
        /// What was tried.
        what: &'static str,
    },
    /// The mount point does not exist or cannot be reached.
    #[error("mount point {path}: {source}", path = shown::path(.path))]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount point is no directory.
    #[error("mount point {path} is not a directory", path = shown::path(.path))]
    NotADirectory {
        /// The mount point.
        path: PathBuf,
    },
    /// A path contains a character that cannot be given to the kernel.
    #[error("{path} contains a NUL byte or cannot be used as a mount option", path = shown::path(.path))]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// mount(2) failed.
    #[error("mounting on {path} failed: {source}", path = shown::path(.path))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// umount(2) says that files are still in use.
    #[error("{path} is busy: a file or directory on it is still in use", path = shown::path(.path))]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// It cannot become read-only now.
    #[error("{path} is in use: a file on it is open for writing, or was deleted and is open still", path = shown::path(.path))]
    InUse {
        /// The mount point.
        path: PathBuf,
    },
    /// umount(2): nothing of ours is mounted there.
    #[error("nothing of this file system is mounted on {path}", path = shown::path(.path))]
    NotMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// umount(2) failed otherwise.
    #[error("unmounting {path} failed: {source}", path = shown::path(.path))]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The anchor block device could not be prepared.
    #[error("anchor device: {what}: {source}")]
    Anchor {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel speaks a protocol that is too old.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.36 (Linux 5.16) or newer is needed")]
    OldKernel {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The first request was not INIT or made no sense.
    #[error("the handshake with the kernel failed: {what}")]
    Handshake {
        /// What was wrong.
        what: &'static str,
    },
    /// The connection was aborted (fusectl, `umount -f`).
    #[error("the connection was aborted")]
    Aborted,
    /// Reading or writing the FUSE device failed.
    #[error("FUSE device: {0}")]
    Device(#[source] io::Error),
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(#[source] io::Error),
    /// The file system could not be made durable at the end.
    #[error("unmounted, but not everything could be made durable: {errno}{}", and_before(.served))]
    Unclean {
        /// Why not.
        errno: keepfs_vfs::Errno,
        /// What had ended the serving, if that was no unmount.
        served: Option<Box<FuseError>>,
    },
}

fn and_before(served: &Option<Box<FuseError>>) -> String {
    let said = served.as_ref().map(|error| format!(" (before that: {error})"));
    said.unwrap_or_default()
}

#[cfg(test)]
mod tests;
