//! The system calls of the guard tests: the ways in which a stray pointer or a mistaken call reaches a mapping.
//! All take addresses as numbers and are meant to be refused or to fault.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

fn answer(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A store of one byte through a pointer that nobody gave us.
pub fn store_byte(at: usize, value: u8) {
    // SAFETY: none, on purpose: in a child process that is expected to die of it, or on a mapping that is writable.
    unsafe {
        core::ptr::write_volatile(at as *mut u8, value);
    }
}

/// read(2) into an address.
pub fn read_into(fd: BorrowedFd<'_>, at: usize, len: usize) -> io::Result<usize> {
    // SAFETY: the kernel checks the range; the tests give mapped memory that no reference points into.
    answer(unsafe { libc::read(fd.as_raw_fd(), at as *mut libc::c_void, len) })
}

/// process_vm_writev(2) into an address of this process.
pub fn vm_write(at: usize, bytes: &[u8]) -> io::Result<usize> {
    let from = libc::iovec {
        iov_base: bytes.as_ptr() as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    let to = libc::iovec {
        iov_base: at as *mut libc::c_void,
        iov_len: bytes.len(),
    };
    // SAFETY: the kernel reads `from` only and checks `to`; both vectors live during the call.
    answer(unsafe { libc::process_vm_writev(libc::getpid(), &raw const from, 1, &raw const to, 1, 0) })
}

/// mprotect(2) to readable and writable.
pub fn make_writable(at: usize, len: usize) -> io::Result<usize> {
    // SAFETY: changes the protection of a mapping that no reference points into.
    answer(unsafe { libc::mprotect(at as *mut libc::c_void, len, libc::PROT_READ | libc::PROT_WRITE) } as isize)
}

/// madvise(2) MADV_REMOVE: punches the pages out of the file behind the mapping.
pub fn remove_pages(at: usize, len: usize) -> io::Result<usize> {
    // SAFETY: changes the content of a mapping that no reference points into.
    answer(unsafe { libc::madvise(at as *mut libc::c_void, len, libc::MADV_REMOVE) } as isize)
}
