//! The anchor: a block device that carries no data and makes sync(2) and umount(2) mean what they say.
//!
//! A plain `fuse` mount is never told of sync(2) or syncfs(2), and umount(2) returns before the server is done. A
//! `fuseblk` mount is told (SYNCFS, from Linux 6.18), and umount(2) waits for the answer to DESTROY. It must stand on
//! a block device, which the kernel claims but neither reads nor writes. A loop device over an empty file in memory
//! is enough: it costs no disk space and goes away by itself with the mount.
//! `docs/decisions/0121-how-a-mount-is-made-and-ends.md`.

use crate::error::FuseError;
use crate::sys;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Size of the empty file, bytes: the smallest that holds one block of 4 KiB with room to spare.
const SIZE: u64 = 64 << 10;
/// Others may take the device that was free a moment ago; so often we look for another.
const TRIES: usize = 64;

/// A loop device made for one mount. Keep it until [`crate::mount`] has returned; dropping it then leaves the
/// device to the mount, and dropping it without a mount detaches the device.
#[derive(Debug)]
pub struct LoopAnchor {
    path: PathBuf,
    device: File,
}

impl LoopAnchor {
    /// Attaches a free loop device to an empty file in memory. `label` is shown by losetup(8).
    /// Errors: [`FuseError::Anchor`] (no `/dev/loop-control`, not root, no free device).
    pub fn attach(label: &str) -> Result<LoopAnchor, FuseError> {
        let backing = backing().map_err(|source| FuseError::Anchor {
            what: "making the empty file",
            source,
        })?;
        let control = open(Path::new("/dev/loop-control")).map_err(|source| FuseError::Anchor {
            what: "opening /dev/loop-control",
            source,
        })?;
        let mut last = io::Error::from_raw_os_error(libc::EBUSY);
        for _ in 0..TRIES {
            let attached = try_attach(&control, &backing, label);
            match attached {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => last = error,
                Err(source) => {
                    return Err(FuseError::Anchor {
                        what: "attaching a loop device",
                        source,
                    });
                }
                Ok(anchor) => return Ok(anchor),
            }
        }
        Err(FuseError::Anchor {
            what: "finding a free loop device",
            source: last,
        })
    }

    /// The device, for [`crate::MountConfig::anchor`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Detaches the device even if nothing was mounted on it. Errors: [`FuseError::Anchor`].
    pub fn detach(self) -> Result<(), FuseError> {
        sys::clear_loop(&self.device).map_err(|source| FuseError::Anchor {
            what: "detaching the loop device",
            source,
        })
    }
}

fn backing() -> io::Result<File> {
    let file = File::from(memfd_create("keepfs-anchor", MemfdFlags::CLOEXEC)?);
    file.set_len(SIZE)?;
    Ok(file)
}

fn try_attach(control: &File, backing: &File, label: &str) -> io::Result<LoopAnchor> {
    let path = PathBuf::from(format!("/dev/loop{}", sys::free_loop_device(control)?));
    let device = open(&path)?;
    sys::configure_loop(&device, backing, label)?;
    Ok(LoopAnchor { path, device })
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}
