//! A file that is replaced: whoever reads it finds the old one or the new one, whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Replaces `path` by a file with `text` and the permissions `mode`, whatever the umask; a link is replaced, not followed.
/// Errors: those of the file system; nothing is left of it then.
pub fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let part = beside(path)?;
    // Left by a process of this number that was ended.
    let _ = fs::remove_file(&part);
    let written = fill(&part, text, mode).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// Whether somebody has taken `path` away by a link to nothing, as systemctl(1) masks a unit.
pub fn is_masked(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| is_null(&target))
}

/// Whether a link to `target` masks.
pub fn is_null(target: &Path) -> bool {
    target == Path::new("/dev/null")
}

/// Not a name that anybody looks for: the textfile collector of node_exporter reads what ends with `.prom`, man(1) what ends with a number.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())))
}

fn fill(part: &Path, text: &str, mode: u32) -> io::Result<()> {
    // The directory may be another user's, who could have put a link there.
    let mut file = File::options().write(true).create_new(true).open(part)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())
}
