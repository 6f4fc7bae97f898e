//! From paths to inodes, as path_resolution(7) says, with the pool's root as the root.

use keepfs_fs::Volume;
use keepfs_vfs::{Attr, Entry, Errno, FileKind, Ino, Vfs};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Most symbolic links in one path, as on Linux.
const LINKS_MAX: u32 = 40;

/// What happens if the last part of a path is a symbolic link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is followed.
    Follow,
    /// It is what was asked for.
    Keep,
}

/// An inode that is looked up: it lives until this is dropped.
pub(crate) struct Held {
    volume: Arc<Volume>,
    entry: Entry,
}

impl Held {
    /// Takes over the lookup that gave `entry`.
    pub(crate) fn over(volume: &Arc<Volume>, entry: Entry) -> Held {
        Held {
            volume: volume.clone(),
            entry,
        }
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn ino(&self) -> Ino {
        self.entry.attr.ino
    }

    /// Attributes as of the lookup.
    pub(crate) fn attr(&self) -> Attr {
        self.entry.attr
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.volume.forget(self.ino(), 1);
    }
}

/// One resolution of a path.
pub(crate) struct Walk<'p> {
    volume: &'p Arc<Volume>,
    links: u32,
}

impl<'p> Walk<'p> {
    pub(crate) fn new(volume: &'p Arc<Volume>) -> Walk<'p> {
        Walk { volume, links: 0 }
    }

    /// The inode at `path`.
    pub(crate) fn find(mut self, path: &Path, last: Last) -> Result<Held, Errno> {
        let root = self.root()?;
        self.follow(root, path.as_os_str().as_bytes(), last)
    }

    /// The directory that holds `path`, and the last name. Errors: `EINVAL` if there is no last name.
    pub(crate) fn parent(mut self, path: &Path) -> Result<(Held, Vec<u8>), Errno> {
        let bytes = path.as_os_str().as_bytes();
        let end = bytes.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
        let start = bytes[..end].iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let name = &bytes[start..end];
        if matches!(name, b"" | b"." | b"..") {
            return Err(Errno::EINVAL);
        }
        let root = self.root()?;
        let parent = self.follow(root, &bytes[..start], Last::Follow)?;
        Ok((parent, name.to_vec()))
    }

    fn root(&self) -> Result<Held, Errno> {
        let entry = self.volume.lookup_ino(Ino::ROOT)?;
        Ok(Held::over(self.volume, entry))
    }

    fn follow(&mut self, from: Held, path: &[u8], last: Last) -> Result<Held, Errno> {
        let mut at = from;
        let names: Vec<&[u8]> = path.split(|b| *b == b'/').filter(|name| !name.is_empty()).collect();
        for (n, name) in names.iter().enumerate() {
            let found = Held::over(self.volume, self.volume.lookup(at.ino(), name)?);
            let is_last = n + 1 == names.len();
            let keep = is_last && last == Last::Keep;
            at = match found.attr().kind() {
                FileKind::Symlink if !keep => self.link(at, &found)?,
                _ => found,
            };
        }
        Ok(at)
    }

    /// Where the symbolic link `link` in `parent` leads.
    fn link(&mut self, parent: Held, link: &Held) -> Result<Held, Errno> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        let target = self.volume.readlink(link.ino())?;
        let from = match target.first() {
            Some(b'/') => self.root()?,
            _ => parent,
        };
        self.follow(from, &target, Last::Follow)
    }
}
