//! The errno table: the one list of error numbers that Keepfs ever returns, with what each means to a user.

use core::fmt;

/// A Linux error number. Construct one of the constants; the number is what the kernel is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

macro_rules! errnos {
    ($($name:ident = $n:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($n);)*

            /// What the error means, in one phrase.
            pub fn text(self) -> &'static str {
                match self.0 { $($n => $text,)* _ => "unknown error" }
            }

            /// The constant's name, such as `ENOENT`.
            pub fn name(self) -> &'static str {
                match self.0 { $($n => stringify!($name),)* _ => "E?" }
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted (immutable or append-only object, or not for this type)";
    ENOENT = 2, "no such file or directory";
    EINTR = 4, "interrupted";
    EIO = 5, "input/output error (the pool's status says what happened)";
    ENXIO = 6, "no such device or address (or nothing past this offset)";
    E2BIG = 7, "too long";
    EBADF = 9, "bad file";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EBUSY = 16, "busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "not on the same file system";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENOTTY = 25, "not a supported ioctl";
    ETXTBSY = 26, "text file busy";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left on the pool";
    EROFS = 30, "read-only pool";
    EMLINK = 31, "too many links";
    ERANGE = 34, "buffer too small";
    ENAMETOOLONG = 36, "name too long";
    ENOSYS = 38, "not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "not supported";
    ESTALE = 116, "stale file handle (the inode is gone)";
    EUCLEAN = 117, "changes that were answered are lost (`keepfs damage list` says what is known, `keepfs damage clear` takes note of it)";
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.text())
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for Errno {}
