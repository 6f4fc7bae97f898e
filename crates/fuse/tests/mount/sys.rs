//! System calls of the tests that have no safe form elsewhere. The only file of these tests with `unsafe` in it.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Largest handle asked for, bytes (`MAX_HANDLE_SZ`).
const HANDLE_MAX: usize = 128;

/// A file handle as NFS servers use it: `struct file_handle`.
#[derive(Clone)]
#[repr(C, align(8))]
pub struct Handle {
    bytes: u32,
    kind: i32,
    body: [u8; HANDLE_MAX],
}

/// name_to_handle_at(2).
pub fn handle_of(path: &Path) -> io::Result<Handle> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut handle = Handle {
        bytes: HANDLE_MAX as u32,
        kind: 0,
        body: [0; HANDLE_MAX],
    };
    let mut mount_id = 0;
    // SAFETY: the path is NUL-terminated; the kernel writes at most `bytes` bytes of body, which it has.
    let result = unsafe {
        libc::name_to_handle_at(
            libc::AT_FDCWD,
            path.as_ptr(),
            (&raw mut handle).cast(),
            &mut mount_id,
            0,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(handle)
    }
}

/// open_by_handle_at(2), read-only; `mount` is any open file of the file system.
pub fn open_handle(mount: &File, handle: &Handle) -> io::Result<File> {
    let mut handle = handle.clone();
    // SAFETY: the handle came from `handle_of`, so its length field is right; the kernel only reads it.
    let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut handle).cast(), libc::O_RDONLY) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Maps `len` bytes of `file`, lets `work` at them, writes them back with msync(2) and unmaps. `shared` as MAP_SHARED.
/// `work` runs in a child, see [`mapped`].
pub fn with_mapping(file: &File, len: usize, shared: bool, work: impl FnOnce(&mut [u8])) -> io::Result<()> {
    mapped(file, len, shared, true, work)
}

/// The same, shared and without msync(2): writing back is left to the kernel.
pub fn with_unsynced_mapping(file: &File, len: usize, work: impl FnOnce(&mut [u8])) -> io::Result<()> {
    mapped(file, len, true, false, work)
}

/// Maps in a child: a thread that waits for the server inside munmap(2) or a fault holds the lock of its memory, which the
/// server's threads need to answer, and these belong to this process. `work` must neither allocate nor panic, as of the threads
/// of this process the child has only the caller's.
fn mapped(file: &File, len: usize, shared: bool, sync: bool, work: impl FnOnce(&mut [u8])) -> io::Result<()> {
    // SAFETY: the child calls nothing but `work`, which keeps to the rule above, and system calls, and ends with _exit(2).
    let child = unsafe { libc::fork() };
    match child {
        0 => {
            let errno =
                mapped_here(file, len, shared, sync, work).map_or_else(|e| e.raw_os_error().unwrap_or(0xff), |()| 0);
            // SAFETY: ends the child without running what the parent will run at its own end.
            unsafe { libc::_exit(errno) }
        }
        1.. => {
            let mut status = 0;
            // SAFETY: `status` is a place for an int; the child is this thread's alone to wait for.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
                assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted);
            }
            assert!(libc::WIFEXITED(status), "the child ended with status {status:#x}");
            match libc::WEXITSTATUS(status) {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        }
        _ => Err(io::Error::last_os_error()),
    }
}

fn mapped_here(file: &File, len: usize, shared: bool, sync: bool, work: impl FnOnce(&mut [u8])) -> io::Result<()> {
    let kind = if shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, kind, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `len` bytes, readable and writable, and known only here until it is unmapped.
    work(unsafe { std::slice::from_raw_parts_mut(start.cast::<u8>(), len) });
    // SAFETY: start and length are those of the mapping.
    if sync && unsafe { libc::msync(start, len, libc::MS_SYNC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: start and length are those of the mapping, and no reference into it is left.
    match unsafe { libc::munmap(start, len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// ioctl(2) with a pointer to one 32-bit word.
pub fn ioctl_u32(file: &File, command: u32, word: &mut u32) -> io::Result<()> {
    let mut wide = [*word, 0];
    // SAFETY: the commands the tests use read or write at most 8 bytes, which `wide` has.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(command), wide.as_mut_ptr()) };
    *word = wide[0];
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// ioctl(2) with a pointer to a `struct fsxattr` of 28 bytes.
pub fn ioctl_fsxattr(file: &File, command: u32, words: &mut [u32; 7]) -> io::Result<()> {
    // SAFETY: the two commands the tests use read or write 28 bytes, which `words` has.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::c_ulong::from(command), words.as_mut_ptr()) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// Makes SIGUSR1 interrupt system calls and do nothing else.
pub fn catch_usr1() {
    // SAFETY: sigaction is plain data, for which all zeros are valid (no flags, so no SA_RESTART).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as *const () as usize;
    // SAFETY: the handler does nothing, so it is safe at any instant; the old action is not asked for.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// The number of the calling thread.
pub fn thread_id() -> libc::pid_t {
    // SAFETY: no arguments, no failure.
    unsafe { libc::gettid() }
}

/// Keeps the calling thread on CPU 0, if it may run there.
pub fn stay_on_cpu_0() {
    // SAFETY: cpu_set_t is plain bits, for which all zeros are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: bit 0 lies inside every set.
    unsafe { libc::CPU_SET(0, &mut set) };
    // SAFETY: the kernel reads the size given, which is the size of `set`.
    let _ = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
}

/// Sends SIGUSR1 to a thread of this process.
pub fn send_usr1(thread: libc::pid_t) {
    let process = std::process::id();
    // SAFETY: tgkill takes plain numbers; the handler of the signal does nothing.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    assert_eq!(result, 0);
}

/// What `struct iocb` is to the kernel.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    key: u32,
    flags: u32,
    op: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags_more: u32,
    event_file: u32,
}

/// IOCB_CMD_PWRITE.
const PWRITE: u16 = 1;

/// Data where O_DIRECT wants it.
#[repr(align(4096))]
pub struct Aligned(pub [u8; 4096]);

/// Writes `data` to the beginning of the file with io_submit(2), and waits until it is done.
pub fn write_asynchronously(file: &File, data: &[u8; 4096]) {
    let data = Aligned(*data);
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word, which is there.
    let made = unsafe { libc::syscall(libc::SYS_io_setup, 1, &mut context) };
    assert_eq!(made, 0);
    let mut request = Iocb {
        op: PWRITE,
        file: file.as_raw_fd() as u32,
        buffer: data.0.as_ptr() as u64,
        bytes: data.0.len() as u64,
        ..Iocb::default()
    };
    let mut requests = [&raw mut request];
    // SAFETY: one request, which lives with its buffer until the call below has seen it done.
    let begun = unsafe { libc::syscall(libc::SYS_io_submit, context, 1, requests.as_mut_ptr()) };
    assert_eq!(begun, 1);
    let mut done = [0i64; 4];
    // SAFETY: the kernel writes one event of 32 bytes, which `done` has.
    let ended = unsafe { libc::syscall(libc::SYS_io_getevents, context, 1, 1, done.as_mut_ptr(), 0) };
    assert_eq!((ended, done[2]), (1, 4096));
    // SAFETY: nothing is under way in the context any more.
    unsafe { libc::syscall(libc::SYS_io_destroy, context) };
}
