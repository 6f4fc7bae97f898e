//! Changes of attributes, open, and the chattr flags. The order of checks is that of `notify_change` of Linux.

use super::inode::{Body, Inode};
use super::state::{PERMISSIONS, State};
use keepfs_vfs::{Attr, Errno, FileKind, Ino, InodeFlags, OpenHow, Result, SetAttr, SetTime, Time};

impl State {
    pub(super) fn setattr(&mut self, ino: Ino, change: &SetAttr, now: Time) -> Result<Attr> {
        let max_file_size = self.options.max_file_size;
        let inode = self.inode_mut(ino)?;
        check_setattr(inode, change, max_file_size)?;
        apply_setattr(inode, change, now)?;
        Ok(inode.attr())
    }

    pub(super) fn open(&mut self, ino: Ino, how: OpenHow, now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        let changes = how.write || how.truncate;
        match inode.body {
            Body::Symlink(_) => return Err(Errno::ELOOP),
            Body::Dir(_) if changes => return Err(Errno::EISDIR),
            _ => (),
        }
        if inode.is_immutable() && changes {
            return Err(Errno::EPERM);
        }
        if inode.is_append_only() && (how.truncate || how.write && !how.append) {
            return Err(Errno::EPERM);
        }
        if how.truncate
            && let Body::File(pages) = &mut inode.body
        {
            pages.resize(0);
            inode.note_contents_changed(how.kill_suidgid, now);
        }
        Ok(())
    }

    pub(super) fn set_flags(&mut self, ino: Ino, flags: InodeFlags, now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        if !InodeFlags::SETTABLE.has(flags) || !matches!(inode.kind(), FileKind::File | FileKind::Dir) {
            return Err(Errno::EOPNOTSUPP);
        }
        if !inode.flags.may_become(flags) {
            return Err(Errno::EPERM);
        }
        inode.flags = flags;
        inode.ctime = now;
        Ok(())
    }
}

fn check_setattr(inode: &Inode, change: &SetAttr, max_file_size: u64) -> Result<()> {
    // Times that the kernel kept itself come with a ctime; its own, which nobody set, without an atime.
    let is_writeback = change.ctime.is_some();
    let is_times_writeback = is_writeback && change.atime.is_none();
    let is_touch = change.atime == Some(SetTime::Now)
        && (change.mtime == Some(SetTime::Now) || is_writeback && change.mtime.is_some());
    let sets_times = change.atime.is_some() || change.mtime.is_some();
    let sets_owner_or_mode = change.mode.is_some() || change.uid.is_some() || change.gid.is_some();
    if sets_owner_or_mode || change.size.is_some() || sets_times && !is_touch && !is_times_writeback {
        inode.check_changeable()?;
    }
    if is_touch && inode.is_immutable() {
        return Err(Errno::EPERM);
    }
    if change.mode.is_some() && inode.kind() == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    if let Some(size) = change.size {
        inode.file()?;
        if size > max_file_size {
            return Err(Errno::EFBIG);
        }
    }
    Ok(())
}

fn apply_setattr(inode: &mut Inode, change: &SetAttr, now: Time) -> Result<()> {
    let is_chown = change.uid.is_some() || change.gid.is_some();
    if let Some(size) = change.size {
        inode.file_mut()?.resize(size);
        inode.note_contents_changed(false, now);
    }
    if is_chown && !inode.is_dir() {
        inode.kill_capability();
    }
    if is_chown || change.kill_suidgid {
        inode.kill_set_id();
    }
    inode.uid = change.uid.unwrap_or(inode.uid);
    inode.gid = change.gid.unwrap_or(inode.gid);
    if let Some(mode) = change.mode {
        inode.mode = inode.mode & !PERMISSIONS | mode & PERMISSIONS;
        if let Some(acl) = &mut inode.access_acl {
            acl.chmod(mode);
        }
    }
    let moment = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    inode.atime = change.atime.map_or(inode.atime, moment);
    inode.mtime = change.mtime.map_or(inode.mtime, moment);
    inode.ctime = change.ctime.unwrap_or(now);
    Ok(())
}
