//! The system calls that no crate offers without `unsafe`: marking inherited descriptors, and the way a printing program
//! ends. The only such file here.
#![allow(unsafe_code)]

use std::io;

/// Marks every descriptor above standard error, so that programs started from here on do not inherit it.
/// A server that kept a pipe of its parent's parent would keep its reader waiting for as long as the mount lives.
pub fn keep_descriptors_private() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: with this flag nothing is closed; close_range takes plain numbers only.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// From here on a write to a pipe that nobody reads ends the process, as with other programs that print (SIGPIPE).
pub fn end_with_the_reader() {
    // SAFETY: plain system call; the default action needs no handler.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
