//! All inodes of the model, and how they come and go.

use std::collections::BTreeMap;

use super::Options;
use super::inode::{Body, Dir, Inode};
use super::pages::Pages;
use keepfs_vfs::{Entry, Errno, FileKind, Ino, InodeFlags, NAME_MAX, NewInode, Result, S_ISGID, StatFs, Time};

/// The whole file system.
#[derive(Clone)]
pub(super) struct State {
    pub(super) inodes: BTreeMap<Ino, Inode>,
    pub(super) options: Options,
    pub(super) is_shut_down: bool,
    next_ino: u64,
}

/// Permission bits of a mode, set-id and sticky bits included.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Errors: `ENAMETOOLONG`; `ENOENT` for an empty name; `EINVAL` for one that no directory can hold.
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        [] => Err(Errno::ENOENT),
        _ if name.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Whether the name is `.` or `..`.
pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

impl State {
    pub(super) fn new(options: Options, now: Time) -> State {
        let mut state = State {
            inodes: BTreeMap::new(),
            options,
            is_shut_down: false,
            next_ino: Ino::ROOT.0,
        };
        let mode = FileKind::Dir.type_bits() | 0o755;
        let mut root = blank(Ino::ROOT, mode, Body::Dir(Dir::new(Ino::ROOT)), now);
        root.nlink = 2;
        state.inodes.insert(Ino::ROOT, root);
        state.next_ino += 1;
        state
    }

    /// Errors: `ESTALE`.
    pub(super) fn inode(&self, ino: Ino) -> Result<&Inode> {
        self.inodes.get(&ino).ok_or(Errno::ESTALE)
    }

    /// Errors: `ESTALE`.
    pub(super) fn inode_mut(&mut self, ino: Ino) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(Errno::ESTALE)
    }

    /// The answer to a lookup; raises the count.
    pub(super) fn entry(&mut self, ino: Ino) -> Result<Entry> {
        let inode = self.inode_mut(ino)?;
        inode.lookups += 1;
        Ok(Entry { attr: inode.attr() })
    }

    pub(super) fn forget(&mut self, ino: Ino, count: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(count);
            self.reclaim(ino);
        }
    }

    /// Ends an inode that has neither names nor lookups.
    fn reclaim(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|i| i.nlink == 0 && i.lookups == 0) {
            self.inodes.remove(&ino);
        }
    }

    /// A new inode in `parent` as inode_init_owner and posix_acl_create of Linux make it; it has no name yet.
    pub(super) fn create(&mut self, parent: Ino, new: &NewInode, body: Body, now: Time) -> Result<Ino> {
        let dir = self.inode(parent)?;
        let ino = Ino(self.next_ino);
        let mut inode = blank(ino, new.mode, body, now);
        inode.uid = new.uid;
        inode.gid = new.gid;
        if matches!(inode.kind(), FileKind::File | FileKind::Dir) {
            inode.flags = dir.flags.inherited();
        }
        if dir.mode & S_ISGID != 0 {
            inode.gid = dir.gid;
            if inode.is_dir() {
                inode.mode |= S_ISGID;
            }
        }
        match &dir.default_acl {
            _ if inode.kind() == FileKind::Symlink => (),
            None => inode.mode &= !(new.umask & 0o777),
            Some(default) => {
                let mut access = default.clone();
                access.restrict(inode.mode);
                inode.mode = inode.mode & !0o777 | access.mode_bits();
                inode.access_acl = (!access.is_minimal()).then_some(access);
                inode.default_acl = inode.is_dir().then(|| default.clone());
            }
        }
        if matches!(inode.kind(), FileKind::Char | FileKind::Block) {
            inode.rdev = new.rdev;
        }
        self.next_ino += 1;
        self.inodes.insert(ino, inode);
        Ok(ino)
    }

    /// Gives `ino` the name `name` in `parent`, which has no such name yet (or loses it to `ino`).
    pub(super) fn add_name(&mut self, parent: Ino, name: &[u8], ino: Ino, now: Time) -> Result<()> {
        let is_dir = self.inode(ino)?.is_dir();
        let dir = self.inode_mut(parent)?;
        dir.dir_mut()?.put(name, ino);
        dir.stamp_modified(now);
        if is_dir {
            dir.nlink += 1;
            self.inode_mut(ino)?.dir_mut()?.parent = parent;
        }
        Ok(())
    }

    /// Takes the name away from `parent`; the inode's own link count stays.
    pub(super) fn remove_name(&mut self, parent: Ino, name: &[u8], now: Time) -> Result<Ino> {
        let ino = self.child(parent, name)?;
        let is_dir = self.inode(ino)?.is_dir();
        let dir = self.inode_mut(parent)?;
        dir.dir_mut()?.entries.remove(name);
        dir.stamp_modified(now);
        if is_dir {
            dir.nlink -= 1;
        }
        Ok(ino)
    }

    /// One name less for `ino`; a directory has no other.
    pub(super) fn drop_link(&mut self, ino: Ino, now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        inode.nlink = if inode.is_dir() { 0 } else { inode.nlink - 1 };
        inode.ctime = now;
        self.reclaim(ino);
        Ok(())
    }

    /// The inode behind an ordinary name. Errors: `ENOENT`, `ENOTDIR`, those of [`check_name`].
    pub(super) fn child(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let dir = self.inode(parent)?.dir()?;
        check_name(name)?;
        dir.entries.get(name).map(|d| d.ino).ok_or(Errno::ENOENT)
    }

    /// Whether the directory `ancestor` is `ino` or above it.
    pub(super) fn is_at_or_above(&self, ancestor: Ino, ino: Ino) -> Result<bool> {
        let mut at = ino;
        loop {
            if at == ancestor {
                return Ok(true);
            }
            if at == Ino::ROOT {
                return Ok(false);
            }
            at = self.inode(at)?.dir()?.parent;
        }
    }

    /// The model never fills: figures of a large, empty pool.
    pub(super) fn statfs(&self) -> StatFs {
        const BLOCKS: u64 = 1 << 40;
        let files = self.inodes.len() as u64;
        StatFs {
            block_size: 4096,
            blocks: BLOCKS,
            blocks_free: BLOCKS,
            blocks_available: BLOCKS,
            files: BLOCKS,
            files_free: BLOCKS - files,
        }
    }
}

/// An inode with a mode and a body, all else zero.
fn blank(ino: Ino, mode: u32, body: Body, now: Time) -> Inode {
    Inode {
        ino,
        mode,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        flags: InodeFlags::default(),
        xattrs: BTreeMap::new(),
        access_acl: None,
        default_acl: None,
        body,
        lookups: 0,
        is_linkable: false,
    }
}

/// The body that `mode` asks for. Errors: `EINVAL` for a symbolic link or an unknown type.
pub(super) fn body_of_mode(mode: u32, parent: Ino) -> Result<Body> {
    match FileKind::of_mode(mode).ok_or(Errno::EINVAL)? {
        FileKind::File => Ok(Body::File(Pages::default())),
        FileKind::Dir => Ok(Body::Dir(Dir::new(parent))),
        FileKind::Symlink => Err(Errno::EINVAL),
        _ => Ok(Body::Special),
    }
}
