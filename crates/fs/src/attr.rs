//! Attributes: getattr, setattr, open, chattr flags. The order of checks is that of `notify_change` of Linux.

use crate::acl;
use crate::data::{Cut, contents_changed, regular};
use crate::errors::{Result, Step, refuse, seen};
use crate::inode::{Held, Stamp, has, is_fixed, kill_set_id, kind, moment, set_time, time};
use crate::xattr;
use crate::{AccessTimes, Volume};
use keepfs_format::blockmap::FILE_SIZE_MAX;
use keepfs_format::inode::Inode;
use keepfs_format::oplog::{Action, Attrs, attr};
use keepfs_store::Txn;
use keepfs_store::planted::{self, Logic};
use keepfs_vfs::{Attr, Entry, Errno, FileKind, InodeFlags, OpenHow, SetAttr, SetTime, Time};

/// Permission bits of a mode, set-id and sticky bits included.
pub(crate) const PERMISSIONS: u32 = 0o7777;
/// Seconds after which relatime stamps an access anyway.
const DAY: i64 = 24 * 60 * 60;

impl Volume {
    /// Attributes. Errors: `ESTALE`.
    pub(crate) fn do_getattr(&self, ino: u64) -> Result<Attr> {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| self.usable(view, ino))?;
        Ok(self.attr_of(ino, &inode))
    }

    /// The entry of a number; raises its lookup count. Errors: `ESTALE`.
    pub(crate) fn do_lookup_ino(&self, ino: u64) -> Result<Entry> {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| self.usable(view, ino))?;
        Ok(self.entry_of(ino, &inode))
    }

    /// Changes attributes, all or none.
    pub(crate) fn do_setattr(&self, ino: u64, change: &SetAttr) -> Result<Attr> {
        let mut lock = match change.size {
            Some(_) => self.settled(ino),
            None => self.locks.exclusive(ino),
        };
        let now = self.now();
        let inode = self.see(|view| self.usable(view, ino))?;
        seen(check(&inode, change))?;
        let cut = change
            .size
            .map(|size| self.prepare_cut(ino, &inode, size))
            .transpose()?;
        let (inode, more) = self.change(|txn| {
            let mut held = Held::load(txn, ino)?;
            let more = apply(txn, &mut held, change, cut.as_ref(), now)?;
            held.put(txn)?;
            Ok((held.now, more))
        })?;
        if more {
            self.free_cut(ino, &mut lock)?;
            return Ok(self.attr_of(ino, &self.see(|view| self.usable(view, ino))?));
        }
        Ok(self.attr_of(ino, &inode))
    }

    /// open(2): flags, and truncation. Errors: `ELOOP`, `EISDIR`, `EPERM`.
    pub(crate) fn do_open(&self, ino: u64, how: OpenHow) -> Result<()> {
        let inode = {
            let _lock = self.locks.shared(ino);
            self.see(|view| self.usable(view, ino))?
        };
        seen(check_open(&inode, how))?;
        if !how.truncate || kind(&inode) != FileKind::File {
            return Ok(());
        }
        let mut lock = self.settled(ino);
        let now = self.now();
        let inode = self.see(|view| self.usable(view, ino))?;
        seen(check_open(&inode, how))?;
        let cut = self.prepare_cut(ino, &inode, 0)?;
        let more = self.change(|txn| {
            let mut held = Held::load(txn, ino)?;
            held.step();
            let more = cut.apply(txn, &mut held)?;
            contents_changed(txn, &mut held, how.kill_suidgid, now)?;
            held.put(txn)?;
            Ok(more)
        })?;
        if more { self.free_cut(ino, &mut lock) } else { Ok(()) }
    }

    /// chattr flags. Errors: `EOPNOTSUPP`, `EPERM`.
    pub(crate) fn do_set_flags(&self, ino: u64, flags: InodeFlags) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        self.change(|txn| {
            let mut held = self.hold(txn, ino)?;
            if !InodeFlags::SETTABLE.has(flags) || !matches!(held.kind(), FileKind::File | FileKind::Dir) {
                return refuse(Errno::EOPNOTSUPP);
            }
            if !InodeFlags(held.now.flags.get()).may_become(flags) {
                return refuse(Errno::EPERM);
            }
            let (flags, time) = (flags.0, moment(now));
            txn.op(ino, Action::SetFlags { flags, time })?;
            held.now.flags.set(flags);
            held.changed(now);
            held.put(txn)
        })
    }

    /// Whether an access at `now` is stamped.
    pub(crate) fn wants_access_time(&self, inode: &Inode, now: Time) -> bool {
        let atime = time(inode, Stamp::Access);
        let is_due = match self.access_times.of(kind(inode)) {
            AccessTimes::Never => false,
            AccessTimes::Strict => true,
            AccessTimes::Relative => {
                atime <= time(inode, Stamp::Modify)
                    || atime <= time(inode, Stamp::Change)
                    || now.sec.saturating_sub(atime.sec) >= DAY
            }
        };
        is_due && atime != now && !has(inode, InodeFlags::NOATIME)
    }
}

/// Errors: `EPERM`, `EOPNOTSUPP`, `EISDIR`, `EINVAL`, `EFBIG`.
fn check(inode: &Inode, change: &SetAttr) -> Step<()> {
    // A kernel that keeps the times itself sends them without an atime, and gives a ctime with whatever users set (S-20.20).
    let (is_by_kernel, sets_atime) = (change.ctime.is_some(), change.atime.is_some());
    let is_now = change.mtime == Some(SetTime::Now) || is_by_kernel && change.mtime.is_some();
    let is_touch = change.atime == Some(SetTime::Now) && is_now;
    let sets_times = !is_touch && (sets_atime || change.mtime.is_some() && !is_by_kernel);
    let sets_others = change.mode.is_some() || change.uid.is_some() || change.gid.is_some() || change.size.is_some();
    if (sets_others || sets_times) && is_fixed(inode) || is_touch && has(inode, InodeFlags::IMMUTABLE) {
        return refuse(Errno::EPERM);
    }
    if change.mode.is_some() && kind(inode) == FileKind::Symlink {
        return refuse(Errno::EOPNOTSUPP);
    }
    if let Some(size) = change.size {
        regular(inode)?;
        if size > FILE_SIZE_MAX {
            return refuse(Errno::EFBIG);
        }
    }
    Ok(())
}

/// Applies a checked change; `true` if a trim must follow.
fn apply(txn: &mut Txn<'_>, held: &mut Held, change: &SetAttr, cut: Option<&Cut>, now: Time) -> Step<bool> {
    let mut more = false;
    if let Some(cut) = cut {
        held.step();
        more = cut.apply(txn, held)?;
        contents_changed(txn, held, false, now)?;
    }
    txn.op(held.ino, told(change, now))?;
    let is_dir = held.kind() == FileKind::Dir;
    let is_chown = change.uid.is_some() || change.gid.is_some();
    if is_chown && !is_dir {
        xattr::drop_capability(txn, held)?;
    }
    if (is_chown || change.kill_suidgid) && !is_dir {
        held.now.mode.set(kill_set_id(held.now.mode.get()));
    }
    if let Some(uid) = change.uid {
        held.now.uid.set(uid);
    }
    if let Some(gid) = change.gid {
        held.now.gid.set(gid);
    }
    if let Some(mode) = change.mode {
        let kept = if planted::has(Logic::TypeDropped) {
            0
        } else {
            !PERMISSIONS
        };
        held.now.mode.set(held.now.mode.get() & kept | mode & PERMISSIONS);
        acl::chmod(txn, held, mode)?;
    }
    let moment = |set: SetTime| match set {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if let Some(atime) = change.atime {
        set_time(&mut held.now, Stamp::Access, moment(atime));
    }
    if let Some(mtime) = change.mtime {
        set_time(&mut held.now, Stamp::Modify, moment(mtime));
    }
    set_time(&mut held.now, Stamp::Change, change.ctime.unwrap_or(now));
    Ok(more)
}

/// A change of attributes as the operation log carries it; a cut is told by itself.
fn told(change: &SetAttr, now: Time) -> Action<'static> {
    let bit = |bit, on| if on { bit } else { 0 };
    let at = |set| match set {
        Some(SetTime::At(time)) => moment(time),
        _ => moment(now),
    };
    let attrs = Attrs {
        set: attr::CTIME
            | bit(attr::MODE, change.mode.is_some())
            | bit(attr::UID, change.uid.is_some())
            | bit(attr::GID, change.gid.is_some())
            | bit(attr::ATIME, change.atime.is_some())
            | bit(attr::MTIME, change.mtime.is_some())
            | bit(attr::KILL, change.kill_suidgid),
        mode: change.mode.unwrap_or_default(),
        uid: change.uid.unwrap_or_default(),
        gid: change.gid.unwrap_or_default(),
        atime: at(change.atime),
        mtime: at(change.mtime),
        ctime: moment(change.ctime.unwrap_or(now)),
    };
    Action::SetAttr { attrs }
}

/// Errors: `ELOOP`, `EISDIR`, `EPERM`.
fn check_open(inode: &Inode, how: OpenHow) -> Step<()> {
    let changes = how.write || how.truncate;
    match kind(inode) {
        FileKind::Symlink => return refuse(Errno::ELOOP),
        FileKind::Dir if changes => return refuse(Errno::EISDIR),
        _ => {}
    }
    if changes && has(inode, InodeFlags::IMMUTABLE) {
        return refuse(Errno::EPERM);
    }
    if has(inode, InodeFlags::APPEND) && (how.truncate || how.write && !how.append) {
        return refuse(Errno::EPERM);
    }
    Ok(())
}
