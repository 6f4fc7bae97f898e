//! What is known of a file, and the entries of a directory.

use keepfs_vfs::{Attr, FileKind, Time};
use std::ffi::OsString;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    pub(crate) attr: Attr,
}

impl Metadata {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.attr.size
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.attr.size == 0
    }

    /// File, directory, symbolic link, ...
    pub fn kind(&self) -> FileKind {
        self.attr.kind()
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == FileKind::Dir
    }

    /// Permission bits, set-id and sticky bits included.
    pub fn permissions(&self) -> u32 {
        self.attr.mode & 0o7777
    }

    /// When its contents changed last.
    pub fn modified(&self) -> Time {
        self.attr.mtime
    }

    /// Everything, as stat(2) shows it.
    pub fn attr(&self) -> &Attr {
        &self.attr
    }
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
    /// Its inode number.
    pub ino: u64,
}
