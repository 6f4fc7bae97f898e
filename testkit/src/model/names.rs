//! Operations on names, all but rename. The order of checks is Linux's (`fs/namei.c`).

use super::inode::{Body, DOT_COOKIE};
use super::state::{PERMISSIONS, State, body_of_mode, check_name, is_dots};
use keepfs_vfs::{Entry, Errno, FileKind, Ino, LINK_MAX, NewInode, Result, S_IFMT, SYMLINK_MAX, Time};

/// One entry of a listing, on its own.
pub(super) struct Listed {
    pub(super) ino: Ino,
    pub(super) kind: FileKind,
    pub(super) name: Vec<u8>,
    pub(super) cookie: u64,
}

impl State {
    /// The inode behind any name, `.` and `..` too.
    pub(super) fn find(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let inode = self.inode(parent)?;
        match name {
            b"." => inode.dir().map(|_| parent),
            b".." if inode.nlink == 0 => Err(Errno::ENOENT),
            b".." => inode.dir().map(|dir| dir.parent),
            _ => self.child(parent, name),
        }
    }

    pub(super) fn readlink(&mut self, ino: Ino, now: Time) -> Result<Vec<u8>> {
        let inode = self.inode_mut(ino)?;
        let Body::Symlink(target) = &inode.body else {
            return Err(Errno::EINVAL);
        };
        let target = target.clone();
        inode.stamp_accessed(now);
        Ok(target)
    }

    /// Whether `name` can be created in `parent`.
    pub(super) fn check_create(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let inode = self.inode(parent)?;
        let dir = inode.dir()?;
        if is_dots(name) {
            return Err(Errno::EEXIST);
        }
        check_name(name)?;
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        if dir.entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        if inode.is_immutable() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        }
    }

    /// Whether the name of `victim` can be taken away from `parent`, as a directory's or as another's.
    pub(super) fn check_delete(&self, parent: Ino, victim: Ino, as_dir: bool) -> Result<()> {
        self.inode(parent)?.check_changeable()?;
        let victim = self.inode(victim)?;
        victim.check_changeable()?;
        match (as_dir, victim.is_dir()) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            _ => Ok(()),
        }
    }

    pub(super) fn mknod(&mut self, parent: Ino, name: &[u8], new: &NewInode, now: Time) -> Result<Entry> {
        let body = body_of_mode(new.mode, parent)?;
        let is_dir = matches!(body, Body::Dir(_));
        self.check_create(parent, name)?;
        if is_dir && self.inode(parent)?.nlink >= LINK_MAX {
            return Err(Errno::EMLINK);
        }
        let new = NewInode {
            mode: new.mode & (S_IFMT | PERMISSIONS),
            ..*new
        };
        self.create_named(parent, name, &new, body, now)
    }

    pub(super) fn symlink(
        &mut self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        new: &NewInode,
        now: Time,
    ) -> Result<Entry> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        if target.len() > SYMLINK_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        self.check_create(parent, name)?;
        let new = NewInode {
            mode: FileKind::Symlink.type_bits() | 0o777,
            ..*new
        };
        self.create_named(parent, name, &new, Body::Symlink(target.to_vec()), now)
    }

    fn create_named(&mut self, parent: Ino, name: &[u8], new: &NewInode, body: Body, now: Time) -> Result<Entry> {
        let ino = self.create(parent, new, body, now)?;
        self.add_name(parent, name, ino, now)?;
        let inode = self.inode_mut(ino)?;
        inode.nlink = if inode.is_dir() { 2 } else { 1 };
        self.entry(ino)
    }

    pub(super) fn tmpfile(&mut self, parent: Ino, new: &NewInode, now: Time) -> Result<Entry> {
        let dir = self.inode(parent)?;
        dir.dir()?;
        if dir.is_immutable() || dir.nlink == 0 {
            return Err(Errno::EPERM);
        }
        let mode = FileKind::File.type_bits() | new.mode & PERMISSIONS;
        let body = body_of_mode(mode, parent)?;
        let ino = self.create(parent, &NewInode { mode, ..*new }, body, now)?;
        self.inode_mut(ino)?.is_linkable = true;
        self.entry(ino)
    }

    pub(super) fn link(&mut self, ino: Ino, parent: Ino, name: &[u8], now: Time) -> Result<Entry> {
        let inode = self.inode(ino)?;
        self.check_create(parent, name)?;
        inode.check_changeable()?;
        if inode.is_dir() {
            return Err(Errno::EPERM);
        }
        if inode.nlink == 0 && !inode.is_linkable {
            return Err(Errno::ENOENT);
        }
        if inode.nlink >= LINK_MAX {
            return Err(Errno::EMLINK);
        }
        self.add_name(parent, name, ino, now)?;
        let inode = self.inode_mut(ino)?;
        inode.nlink += 1;
        inode.is_linkable = false;
        inode.ctime = now;
        self.entry(ino)
    }

    pub(super) fn unlink(&mut self, parent: Ino, name: &[u8], now: Time) -> Result<()> {
        self.inode(parent)?.dir()?;
        if is_dots(name) {
            return Err(Errno::EISDIR);
        }
        let ino = self.child(parent, name)?;
        self.check_delete(parent, ino, false)?;
        self.remove_name(parent, name, now)?;
        self.drop_link(ino, now)
    }

    pub(super) fn rmdir(&mut self, parent: Ino, name: &[u8], now: Time) -> Result<()> {
        self.inode(parent)?.dir()?;
        match name {
            b"." => return Err(Errno::EINVAL),
            b".." => return Err(Errno::ENOTEMPTY),
            _ => (),
        }
        let ino = self.child(parent, name)?;
        self.check_delete(parent, ino, true)?;
        if !self.inode(ino)?.dir()?.entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove_name(parent, name, now)?;
        self.drop_link(ino, now)
    }

    /// The entries behind `cookie`, in cookie order.
    pub(super) fn readdir(&mut self, ino: Ino, cookie: u64, now: Time) -> Result<Vec<Listed>> {
        let inode = self.inode(ino)?;
        let dir = inode.dir()?;
        if inode.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let listed = |ino, name: &[u8], cookie| -> Result<Listed> {
            Ok(Listed {
                ino,
                kind: self.inode(ino)?.kind(),
                name: name.to_vec(),
                cookie,
            })
        };
        let mut all = vec![
            listed(ino, b".", DOT_COOKIE)?,
            listed(dir.parent, b"..", DOT_COOKIE + 1)?,
        ];
        for (name, dirent) in &dir.entries {
            all.push(listed(dirent.ino, name, dirent.cookie)?);
        }
        all.retain(|entry| entry.cookie > cookie);
        all.sort_by_key(|entry| entry.cookie);
        self.inode_mut(ino)?.stamp_accessed(now);
        Ok(all)
    }
}
