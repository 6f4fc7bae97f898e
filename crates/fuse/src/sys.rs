//! The system calls that neither the standard library nor rustix offers without `unsafe` (decision 0001), each behind a
//! safe function. Beside it only `uring/ring.rs` has `unsafe` in it.
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{self, NonNull};

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
/// Marks every descriptor of this process above standard error, so that programs started from here on do not inherit it.
/// A server that kept a pipe of its parent's parent would keep its reader waiting for as long as the mount lives.
/// Errors: those of close_range(2).
pub fn keep_descriptors_private() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: with this flag nothing is closed; close_range takes plain numbers only.
    check(unsafe { libc::close_range(3, libc::c_uint::MAX, flags) }).map(drop)
}

/// This process can wait for its children and has no signal blocked, whatever it was started with (S-16.35). Before it no thread may be
/// started. Neither call fails with these arguments.
pub fn forget_inherited_signals() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: no handler is named, so none can be called.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // SAFETY: the kernel's library writes one set, which lives until the call returns.
    unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was written, and lives until the call returns; the one before is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut()) };
}

/// Opens `/dev/fuse`: a new, unconnected channel.
pub(crate) fn open_fuse() -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open("/dev/fuse")
}

/// Whether the connection of `channel` is neither unmounted nor aborted, which a poll says without taking a request.
pub(crate) fn is_connected(channel: &File) -> bool {
    let mut asked = [PollFd::new(channel, PollFlags::IN)];
    let now = Timespec::default();
    let polled = retry_on_intr(|| poll(&mut asked, Some(&now)));
    polled.is_ok() && !asked[0].revents().contains(PollFlags::ERR)
}

/// Another descriptor of the connection of `channel`, with a queue of its own for requests being worked on.
pub(crate) fn clone_fuse(channel: &File) -> io::Result<File> {
    let new = open_fuse()?;
    let source = channel.as_raw_fd() as u32;
    // SAFETY: the ioctl reads one u32, which lives until it returns; the descriptor is open.
    let result = unsafe { libc::ioctl(new.as_raw_fd(), DEV_IOC_CLONE, &source) };
    check(result).map(|_| new)
}

/// umount2(2) in a child process that has nothing else open and mapped of this one's rings; waits for it.
/// Errors: those of umount2(2) and fork(2); `ECHILD` if the program reaps its children itself.
pub(crate) fn umount_in_child(target: &CStr, flags: i32) -> io::Result<()> {
    // SAFETY: of a process with threads the child may make system calls only, and that is all it does below: it
    // allocates nothing, takes no lock and never returns.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        umount_and_exit(target, flags);
    }
    let mut status = 0;
    loop {
        // SAFETY: the kernel writes one number, which lives until the call returns.
        match check(unsafe { libc::waitpid(pid, &mut status, 0) }) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    match libc::WIFEXITED(status) {
        true if libc::WEXITSTATUS(status) == 0 => Ok(()),
        true => Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status))),
        false => Err(io::Error::from_raw_os_error(libc::EINTR)),
    }
}

/// What the child of [`umount_in_child`] does. Every errno of Linux fits into an exit status.
fn umount_and_exit(target: &CStr, flags: i32) -> ! {
    let (first, last, none): (libc::c_uint, libc::c_uint, libc::c_uint) = (3, libc::c_uint::MAX, 0);
    // SAFETY: plain numbers; the child's own table of descriptors, of which it needs none.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, none) };
    // SAFETY: `target` is a NUL-terminated string in the child's copy of the memory.
    let result = unsafe { libc::umount2(target.as_ptr(), flags) };
    let status = match result {
        0 => 0,
        _ => io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
    };
    // SAFETY: ends this process without running anything of its parent's.
    unsafe { libc::_exit(status) }
}

/// How often the calling thread has slept since it began; what others' turns on its CPU cost it does not count.
/// Errors: none that are documented.
pub(crate) fn times_slept() -> io::Result<i64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes one `rusage`, which lives until the call returns.
    check(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) })?;
    // SAFETY: numbers only, all zero before the call, written by it.
    Ok(unsafe { usage.assume_init() }.ru_nvcsw)
}

/// Gives the calling thread a mount namespace of its own, with a copy of all mounts; it cannot come back.
pub(crate) fn leave_mount_namespace() -> io::Result<()> {
    // SAFETY: unshare takes plain numbers; with this flag only the calling thread's view of mounts and directories changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) }).map(drop)
}

/// Memory of zeros that is there from the beginning and is never paged out.
#[derive(Debug)]
pub(crate) struct LockedMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the type is an address and a length; what lies there is reached only through unsafe code of its users.
unsafe impl Send for LockedMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for LockedMemory {}

impl LockedMemory {
    /// Maps and locks `len` bytes. Errors: `ENOMEM`, also where `RLIMIT_MEMLOCK` forbids it.
    pub(crate) fn new(len: usize) -> io::Result<LockedMemory> {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, prot, flags, -1, 0) };
        let mapped = NonNull::new(base.cast()).filter(|_| base != libc::MAP_FAILED);
        let base = mapped.ok_or_else(io::Error::last_os_error)?;
        let memory = LockedMemory { base, len };
        // SAFETY: exactly the range that was just mapped. A child shall not make the kernel copy pages of it (a child
        // that unmounts needs none); if this cannot be had, it is only slower.
        let _ = unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTFORK) };
        // SAFETY: exactly the range that was just mapped; locking it changes nothing but where it may lie.
        check(unsafe { libc::mlock(base.as_ptr().cast(), len) }).map(|_| memory)
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; users keep this value as long as they use the memory.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
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
