//! The way past the page cache, for what other machines that share the device look at (S-2.12).

use crate::PAGE;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// A buffer of one page for [`crate::Device::read_shared`] and [`crate::Device::write_shared`].
#[repr(C, align(4096))]
pub(super) struct Aligned(pub(super) [u8; PAGE]);

/// The same file or device once more, with O_DIRECT. `None`: there is no /proc, or its file system knows no such way.
pub(super) fn open_past_cache(file: &File) -> Option<File> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut open = File::options();
    open.read(true).write(true).custom_flags(libc::O_DIRECT);
    open.open(again).ok()
}
