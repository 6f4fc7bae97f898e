//! The ioctl that has no safe form elsewhere. The only file of this test with `unsafe` in it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `FS_IOC_SHUTDOWN` of xfs and ext4: `_IOR('X', 125, __u32)`.
const FS_IOC_SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;

/// Shuts down the file system of `file`.
pub fn shut_down(file: &File) -> io::Result<()> {
    let how: u32 = 2;
    // SAFETY: the kernel reads, and may write, one u32, which lives until the call returns; the descriptor is open.
    match unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_SHUTDOWN, &raw const how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
