//! The kernel's table of mounts, as far as it is about Keepfs (proc(5), mountinfo). Never asks a server.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device number as `major:minor`.
    pub device: String,
    /// Where.
    pub dir: PathBuf,
    /// Options of the mount, such as `rw,nosuid`.
    pub options: String,
    /// Type, such as `fuse.keepfs`.
    pub kind: String,
}

impl Mount {
    /// Whether it is one of Keepfs.
    pub fn is_keepfs(&self) -> bool {
        matches!(self.kind.as_str(), "fuse.keepfs" | "fuseblk.keepfs")
    }
}

/// All mounts, in the order in which they were made.
pub fn mounts() -> Vec<Mount> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// The topmost mount at `dir` (an absolute path without links).
pub fn at(dir: &Path) -> Option<Mount> {
    mounts().into_iter().rfind(|mount| mount.dir == dir)
}

/// One line: id, parent, device, root, mount point, options, optional fields, `-`, type, source, options of the super block.
fn parse(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).ok();
    let mut fields = line.split(|b| *b == b' ');
    let device = text(fields.nth(2)?)?;
    let dir = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let options = text(fields.next()?)?;
    let kind = text(fields.skip_while(|field| *field != b"-").nth(1)?)?;
    Some(Mount {
        device,
        dir,
        options,
        kind,
    })
}

/// Undoes the octal escapes of blanks, newlines and backslashes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

#[cfg(test)]
mod tests;
