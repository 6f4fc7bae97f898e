//! How a session finds inodes by path and slot, and gives every lookup back.

use super::Session;
use keepfs_vfs::{Attr, Errno, FileKind, Ino, OpenHow, Result, Vfs};

/// An inode that was looked up and is given back when dropped.
pub(super) struct Got<'a> {
    vfs: &'a dyn Vfs,
    pub(super) attr: Attr,
    /// How many lookups it gives back.
    pub(super) lookups: u64,
}

impl Drop for Got<'_> {
    fn drop(&mut self) {
        if self.lookups > 0 {
            self.vfs.forget(self.attr.ino, self.lookups);
        }
    }
}

/// Why an operation gave nothing: an error, or it was not tried.
pub(super) enum Stop {
    Errno(Errno),
    WrongKind,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

/// The slot that `@n` names.
fn slot_of(word: &str) -> Option<usize> {
    word.strip_prefix('@')?.parse().ok()
}

impl<'a> Session<'a> {
    /// A regular file, opened.
    pub(super) fn open(&self, path: &str, how: OpenHow) -> core::result::Result<Got<'a>, Stop> {
        let got = self.get(path)?;
        if got.attr.kind() != FileKind::File {
            return Err(Stop::WrongKind);
        }
        self.vfs.open(got.attr.ino, how)?;
        Ok(got)
    }

    pub(super) fn get_file_or_dir(&self, path: &str) -> core::result::Result<Got<'a>, Stop> {
        let got = self.get(path)?;
        match got.attr.kind() {
            FileKind::File | FileKind::Dir => Ok(got),
            _ => Err(Stop::WrongKind),
        }
    }

    /// The inode a path leads to.
    pub(super) fn get(&self, path: &str) -> Result<Got<'a>> {
        if let Some(slot) = slot_of(path) {
            let ino = self.slots.get(slot).copied().flatten().ok_or(Errno::EBADF)?;
            return Ok(Got {
                vfs: self.vfs,
                attr: self.vfs.getattr(ino)?,
                lookups: 0,
            });
        }
        if path == "/" {
            return Ok(Got {
                vfs: self.vfs,
                attr: self.vfs.getattr(Ino::ROOT)?,
                lookups: 0,
            });
        }
        let (dir, name) = self.parent(path)?;
        let attr = self.vfs.lookup(dir.attr.ino, name)?.attr;
        Ok(Got {
            vfs: self.vfs,
            attr,
            lookups: 1,
        })
    }

    /// The directory of a path and the name in it. Errors: `ELOOP` if a symbolic link is on the way.
    pub(super) fn parent<'p>(&self, path: &'p str) -> Result<(Got<'a>, &'p [u8])> {
        let Some((dir, name)) = path.rsplit_once('/') else {
            return Ok((self.get("/")?, path.as_bytes()));
        };
        let got = self.get(if dir.is_empty() { "/" } else { dir })?;
        if got.attr.kind() == FileKind::Symlink {
            Err(Errno::ELOOP)
        } else {
            Ok((got, name.as_bytes()))
        }
    }

    pub(super) fn put(&mut self, slot: usize, ino: Option<Ino>) {
        let Some(place) = self.slots.get_mut(slot) else {
            if let Some(ino) = ino {
                self.vfs.forget(ino, 1);
            }
            return;
        };
        if let Some(old) = std::mem::replace(place, ino) {
            self.vfs.forget(old, 1);
        }
    }
}
