//! One inode of the model, and what is in it.

use std::collections::BTreeMap;

use super::pages::{PAGE_BYTES, Pages};
use keepfs_vfs::acl::Acl;
use keepfs_vfs::{Attr, Errno, FileKind, Ino, InodeFlags, Result, S_ISGID, S_ISUID, Time};

/// An inode with everything that belongs to it.
#[derive(Clone)]
pub(super) struct Inode {
    pub(super) ino: Ino,
    /// Type and permission bits.
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u32,
    pub(super) atime: Time,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) btime: Time,
    pub(super) flags: InodeFlags,
    /// All but the ACLs, by full name.
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Only if it says more than the permission bits.
    pub(super) access_acl: Option<Acl>,
    pub(super) default_acl: Option<Acl>,
    pub(super) body: Body,
    /// How many lookups were not given back.
    pub(super) lookups: u64,
    /// It came from `tmpfile` and never had a name: it may be linked (M-6).
    pub(super) is_linkable: bool,
}

/// What an inode holds by its kind.
#[derive(Clone)]
pub(super) enum Body {
    File(Pages),
    Dir(Dir),
    Symlink(Vec<u8>),
    /// FIFO, socket or device.
    Special,
}

/// A directory: its entries by name, without `.` and `..`.
#[derive(Clone)]
pub(super) struct Dir {
    pub(super) parent: Ino,
    pub(super) entries: BTreeMap<Vec<u8>, Dirent>,
    next_cookie: u64,
}

/// A name's inode and its place in listings.
#[derive(Clone, Copy)]
pub(super) struct Dirent {
    pub(super) ino: Ino,
    pub(super) cookie: u64,
}

/// Cookie of `.`; that of `..` is one more.
pub(super) const DOT_COOKIE: u64 = 1;

impl Dir {
    pub(super) fn new(parent: Ino) -> Dir {
        Dir {
            parent,
            entries: BTreeMap::new(),
            next_cookie: DOT_COOKIE + 2,
        }
    }

    /// Adds a name, or points an existing one at `ino`.
    pub(super) fn put(&mut self, name: &[u8], ino: Ino) {
        if let Some(dirent) = self.entries.get_mut(name) {
            dirent.ino = ino;
            return;
        }
        self.entries.insert(
            name.to_vec(),
            Dirent {
                ino,
                cookie: self.next_cookie,
            },
        );
        self.next_cookie += 1;
    }
}

impl Inode {
    pub(super) fn kind(&self) -> FileKind {
        match self.body {
            Body::File(_) => FileKind::File,
            Body::Dir(_) => FileKind::Dir,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special => FileKind::of_mode(self.mode).unwrap_or(FileKind::Fifo),
        }
    }

    pub(super) fn attr(&self) -> Attr {
        let (size, pages) = match &self.body {
            Body::File(pages) => (pages.size(), pages.allocated_pages()),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Dir(_) => (PAGE_BYTES, 1),
            Body::Special => (0, 0),
        };
        Attr {
            ino: self.ino,
            generation: 0,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size,
            blocks: pages.saturating_mul(PAGE_BYTES / 512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            flags: self.flags,
        }
    }

    /// Errors: `ENOTDIR`.
    pub(super) fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Errors: `ENOTDIR`.
    pub(super) fn dir_mut(&mut self) -> Result<&mut Dir> {
        match &mut self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Errors: `EISDIR`, `EINVAL` for what is neither file nor directory.
    pub(super) fn file(&self) -> Result<&Pages> {
        match &self.body {
            Body::File(pages) => Ok(pages),
            Body::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Errors: as [`Inode::file`].
    pub(super) fn file_mut(&mut self) -> Result<&mut Pages> {
        match &mut self.body {
            Body::File(pages) => Ok(pages),
            Body::Dir(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir(_))
    }

    pub(super) fn is_immutable(&self) -> bool {
        self.flags.has(InodeFlags::IMMUTABLE)
    }

    pub(super) fn is_append_only(&self) -> bool {
        self.flags.has(InodeFlags::APPEND)
    }

    /// Errors: `EPERM` if it is immutable or append-only.
    pub(super) fn check_changeable(&self) -> Result<()> {
        if self.is_immutable() || self.is_append_only() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        }
    }

    /// Its contents (or entries) changed.
    pub(super) fn stamp_modified(&mut self, now: Time) {
        self.mtime = now;
        self.ctime = now;
    }

    /// It was read: relatime (M-3).
    pub(super) fn stamp_accessed(&mut self, now: Time) {
        const DAY_SECONDS: i64 = 24 * 60 * 60;
        let is_stale = self.atime <= self.mtime || self.atime <= self.ctime || now.sec - self.atime.sec >= DAY_SECONDS;
        if is_stale && !self.flags.has(InodeFlags::NOATIME) {
            self.atime = now;
        }
    }

    /// Removes the set-id bits as a change by an ordinary user does (directories keep them).
    pub(super) fn kill_set_id(&mut self) {
        const GROUP_EXECUTE: u32 = 0o010;
        if self.is_dir() {
            return;
        }
        self.mode &= !S_ISUID;
        if self.mode & GROUP_EXECUTE != 0 {
            self.mode &= !S_ISGID;
        }
    }

    /// What every change of contents does besides (M-5): stamps, and privileges lost.
    pub(super) fn note_contents_changed(&mut self, kill_set_id: bool, now: Time) {
        self.stamp_modified(now);
        self.kill_capability();
        if kill_set_id {
            self.kill_set_id();
        }
    }

    /// Removes file capabilities (M-5).
    pub(super) fn kill_capability(&mut self) {
        self.xattrs.remove(&b"security.capability"[..]);
    }
}
