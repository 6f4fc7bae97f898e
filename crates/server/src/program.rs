//! Programs that servers are started from.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The program that this process is.
pub const OWN: &str = "/proc/self/exe";

/// A program, open to be started and no more. Errors: there is none that may be started; those of the file system.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let found = file.metadata()?;
    match found.is_file() && found.mode() & 0o111 != 0 {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is no file that may be executed",
        )),
    }
}
