//! The system calls that the standard library lacks: size and discard of block devices, what a loop device shows, holes of files.
//!
//! The only file of this package with `unsafe`: each call passes a descriptor that is open for the
//! length of the call and memory that outlives it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `BLKGETSIZE64` of linux/fs.h: `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272_u32 as libc::Ioctl;
/// `BLKDISCARD` of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: libc::Ioctl = 0x1277;

/// `LOOP_GET_STATUS64` of linux/loop.h.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
/// 64-bit words of `struct loop_info64`.
const LOOP_INFO_WORDS: usize = 29;

/// The file beneath a loop device, and which bytes of it (the first five words of `struct loop_info64`). Numbers of devices are
/// the kernel's.
pub(crate) struct LoopStatus {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// The number of the device that the file is, or 0.
    pub(crate) special: u64,
    pub(crate) offset: u64,
    /// 0: all.
    pub(crate) limit: u64,
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// Repeats `call` for as long as a signal interrupts it.
fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Bytes of the block device `file`.
pub(crate) fn block_device_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one u64 to the address given, which is that of a live u64.
    check(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) })?;
    Ok(bytes)
}

/// What the loop device `file` shows. Errors: it is none, or has no file.
pub(crate) fn loop_status(file: &File) -> io::Result<LoopStatus> {
    let mut info = [0u64; LOOP_INFO_WORDS];
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, 232 bytes, to the address given, which is that of 29 live u64.
    check(unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) })?;
    let [device, inode, special, offset, limit, ..] = info;
    Ok(LoopStatus {
        device,
        inode,
        special,
        offset,
        limit,
    })
}

/// Discards `len` bytes from `start` on of the block device `file`.
pub(crate) fn block_device_discard(file: &File, start: u64, len: u64) -> io::Result<()> {
    let range = [start, len];
    uninterrupted(|| {
        // SAFETY: BLKDISCARD reads two u64 from the address given, which is that of a live pair.
        check(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) })
    })
}

/// Gives `len` bytes from `start` on of the regular file `file` back to its file system.
pub(crate) fn punch_hole(file: &File, start: u64, len: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let start = libc::off64_t::try_from(start).map_err(io::Error::other)?;
    let len = libc::off64_t::try_from(len).map_err(io::Error::other)?;
    uninterrupted(|| {
        // SAFETY: fallocate takes numbers only; the descriptor is open.
        check(unsafe { libc::fallocate64(file.as_raw_fd(), mode, start, len) })
    })
}

/// Has `len` bytes from `start` on, be it behind the end of the regular file `file`, allocated; its size stays.
pub(crate) fn allocate(file: &File, start: u64, len: u64) -> io::Result<()> {
    let start = libc::off64_t::try_from(start).map_err(io::Error::other)?;
    let len = libc::off64_t::try_from(len).map_err(io::Error::other)?;
    uninterrupted(|| {
        // SAFETY: fallocate takes numbers only; the descriptor is open.
        check(unsafe { libc::fallocate64(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, start, len) })
    })
}

/// Asks the system to forget what it remembers of `len` clean bytes from `start` on (0: all from there), so that a read meets the medium. It
/// may go on remembering; then the read is as good as any other.
pub(crate) fn forget_cached(file: &File, start: u64, len: u64) {
    let range = (libc::off64_t::try_from(start), libc::off64_t::try_from(len));
    if let (Ok(start), Ok(len)) = range {
        // SAFETY: posix_fadvise takes numbers only; the descriptor is open.
        unsafe { libc::posix_fadvise64(file.as_raw_fd(), start, len, libc::POSIX_FADV_DONTNEED) };
    }
}
