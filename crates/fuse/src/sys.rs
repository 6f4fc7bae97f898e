//! Every system call that the standard library does not offer, each behind a safe function. The only file of this
//! package with `unsafe` in it.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// `FUSE_DEV_IOC_CLONE`.
const DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;
/// `LOOP_CTL_GET_FREE`.
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
/// `LOOP_CONFIGURE` (Linux 5.8).
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
/// `LOOP_CLR_FD`.
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;
/// `LO_FLAGS_AUTOCLEAR`.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// `PR_SET_IO_FLUSHER` (Linux 5.6).
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// Opens `/dev/fuse`: a new, unconnected channel.
pub(crate) fn open_fuse() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open("/dev/fuse")
}

/// Another descriptor of the connection of `channel`, with a queue of its own for requests being worked on.
pub(crate) fn clone_fuse(channel: &File) -> io::Result<File> {
    let new = open_fuse()?;
    let source = channel.as_raw_fd() as u32;
    // SAFETY: the ioctl reads one u32, which lives until it returns; the descriptor is open.
    let result = unsafe { libc::ioctl(new.as_raw_fd(), DEV_IOC_CLONE, &source) };
    check(result).map(|_| new)
}

/// mount(2).
pub(crate) fn mount(
    source: &CStr,
    target: &CStr,
    fs_type: &CStr,
    flags: libc::c_ulong,
    options: &CStr,
) -> io::Result<()> {
    // SAFETY: all four are NUL-terminated strings that live until the call returns.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            fs_type.as_ptr(),
            flags,
            options.as_ptr().cast(),
        )
    };
    check(result).map(drop)
}

/// umount2(2).
pub(crate) fn umount(target: &CStr, flags: i32) -> io::Result<()> {
    // SAFETY: `target` is a NUL-terminated string that lives until the call returns.
    let result = unsafe { libc::umount2(target.as_ptr(), flags) };
    check(result).map(drop)
}

/// Gives the calling thread a descriptor table of its own in which only standard input, output and error are open.
/// For threads that end soon after: whatever descriptor they still know means nothing any more.
pub(crate) fn leave_descriptors() -> io::Result<()> {
    let (first, last): (libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX);
    // SAFETY: plain numbers; with CLOSE_RANGE_UNSHARE only this thread's view changes, and other threads keep theirs.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_UNSHARE) };
    check(result as i32).map(drop)
}

/// The CPUs the calling thread may run on, in order.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is plain bits, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size given, which is the size of `set`.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if result != 0 {
        return vec![0];
    }
    // SAFETY: CPU_ISSET reads one bit of `set`; every index below CPU_SETSIZE is inside it.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Keeps the calling thread on `cpu`.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is plain bits, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE, so the bit lies inside `set`.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads the size given, which is the size of `set`.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    check(result).map(drop)
}

/// Tells the kernel that the calling thread serves a file system: when memory is short, its allocations must not
/// wait for that file system, nor its writes be slowed down on its behalf. Errors: `EPERM` without CAP_SYS_RESOURCE.
pub(crate) fn mark_io_flusher() -> io::Result<()> {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this prctl takes plain numbers only.
    check(unsafe { libc::prctl(PR_SET_IO_FLUSHER, on, unused, unused, unused) }).map(drop)
}

/// An anonymous file in memory.
pub(crate) fn memfd(name: &CStr) -> io::Result<File> {
    // SAFETY: `name` is a NUL-terminated string that lives until the call returns.
    let fd = check(unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}
const _: () = assert!(size_of::<LoopInfo>() == 232);

/// `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}
const _: () = assert!(size_of::<LoopConfig>() == 304);

/// The number of a loop device that was free a moment ago. `control` is `/dev/loop-control`.
pub(crate) fn free_loop_device(control: &File) -> io::Result<u32> {
    // SAFETY: this ioctl has no argument.
    let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })?;
    Ok(number as u32)
}

/// Attaches `backing` to the free loop device `device`; it detaches by itself when its last user closes it.
/// Errors: `EBUSY` if somebody else was faster.
pub(crate) fn configure_loop(device: &File, backing: &File, name: &str) -> io::Result<()> {
    let mut file_name = [0; 64];
    let shown = name.len().min(file_name.len() - 1);
    file_name[..shown].copy_from_slice(&name.as_bytes()[..shown]);
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        sizelimit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: LO_FLAGS_AUTOCLEAR,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config = LoopConfig {
        fd: backing.as_raw_fd() as u32,
        block_size: 4096,
        info,
        reserved: [0; 8],
    };
    // SAFETY: the ioctl reads one `loop_config`, which lives until it returns; both descriptors are open.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) };
    check(result).map(drop)
}

/// Detaches a loop device, now or when its last user closes it.
pub(crate) fn clear_loop(device: &File) -> io::Result<()> {
    // SAFETY: this ioctl has no argument.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD) }).map(drop)
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
