//! A file for the textfile collector of node_exporter: whoever reads it finds one answer, whole.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Replaces `path` by a file with `text`, which everybody may read. Errors: those of the file system; nothing is left of it then.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let part = beside(path)?;
    // Left by a process of this number that was ended.
    let _ = fs::remove_file(&part);
    let written = fill(&part, text).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

/// The collector reads what ends with `.prom`, which this does not.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id())))
}

fn fill(part: &Path, text: &str) -> io::Result<()> {
    // The directory may be another user's, who could have put a link there.
    let mut file = File::options().write(true).create_new(true).open(part)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text.as_bytes())
}
