//! New inodes: the root, mknod, mkdir, symlink, tmpfile. The order of checks is Linux's (`fs/namei.c`).

use crate::Volume;
use crate::acl;
use crate::attr::PERMISSIONS;
use crate::dir::{self, Sight};
use crate::errors::{Result, Step, refuse};
use crate::inode::{Held, Stamp, has, kind, moment, set_time};
use crate::once::For;
use keepfs_format::inode::{BODY, BODY_INLINE, BODY_NONE, Inode};
use keepfs_format::oplog::Action;
use keepfs_format::plog::Record;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Source, Txn};
use keepfs_vfs::{
    Entry, Errno, FileKind, Ino, InodeFlags, LINK_MAX, NAME_MAX, NewInode, S_IFMT, S_ISGID, SYMLINK_MAX, Time,
};

/// Errors: `ENAMETOOLONG`; `ENOENT` for an empty name; `EINVAL` for one that no directory can hold (S-6.6).
pub(crate) fn check_name(name: &[u8]) -> Step<()> {
    match name {
        [] => refuse(Errno::ENOENT),
        _ if name.len() > NAME_MAX => refuse(Errno::ENAMETOOLONG),
        _ if name.contains(&b'/') || name.contains(&0) => refuse(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// Whether the name is `.` or `..`.
pub(crate) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Errors: `ENOTDIR`.
pub(crate) fn directory(inode: &Inode) -> Step<()> {
    if kind(inode) == FileKind::Dir {
        Ok(())
    } else {
        refuse(Errno::ENOTDIR)
    }
}

/// Makes the root directory of an empty pool.
pub(crate) fn root(volume: &Volume) -> Result<()> {
    let now = volume.now();
    volume.change(|txn| {
        let ino = Ino::ROOT.0;
        txn.claim_ino(ino)?;
        let mut root = Held::newborn(txn, ino)?;
        root.now.mode.set(FileKind::Dir.type_bits() | 0o755);
        root.now.nlink.set(2);
        root.now.parent.set(ino);
        stamp_all(&mut root, now);
        tell_created(txn, &root, now)?;
        txn.note(Record::Create {
            ino,
            born: root.now.born.get(),
        });
        root.put(txn)
    })
}

/// Tells the operation log of a new life; what it inherits is told after it.
fn tell_created(txn: &mut Txn<'_>, new: &Held, now: Time) -> Step<()> {
    let create = Action::Create {
        mode: new.now.mode.get(),
        uid: new.now.uid.get(),
        gid: new.now.gid.get(),
        rdev: new.now.rdev.get(),
        parent: new.now.parent.get(),
        time: moment(now),
    };
    Ok(txn.op(new.ino, create)?)
}

fn stamp_all(held: &mut Held, now: Time) {
    for stamp in [Stamp::Access, Stamp::Modify, Stamp::Change, Stamp::Birth] {
        set_time(&mut held.now, stamp, now);
    }
}

/// A new inode as a child of `parent`, which is a directory; it has no name and is not stored yet.
pub(crate) fn newborn(txn: &mut Txn<'_>, parent: &Held, new: &NewInode, now: Time) -> Step<Held> {
    let ino = txn.new_ino()?;
    let mut child = Held::newborn(txn, ino)?;
    let is_dir = new.mode & S_IFMT == FileKind::Dir.type_bits();
    child.now.mode.set(new.mode & (S_IFMT | PERMISSIONS));
    child.now.uid.set(new.uid);
    child.now.gid.set(new.gid);
    if parent.now.mode.get() & S_ISGID != 0 {
        child.now.gid = parent.now.gid;
        if is_dir {
            child.now.mode.set(child.now.mode.get() | S_ISGID);
        }
    }
    match child.kind() {
        FileKind::Char | FileKind::Block => child.now.rdev.set(new.rdev),
        FileKind::File => child.now.body = BODY_INLINE,
        FileKind::Dir => child.now.parent.set(parent.ino),
        _ => {}
    }
    stamp_all(&mut child, now);
    tell_created(txn, &child, now)?;
    let inherited = InodeFlags(parent.now.flags.get()).inherited().0;
    if inherited != 0 && matches!(child.kind(), FileKind::File | FileKind::Dir) {
        let (flags, time) = (inherited, moment(now));
        txn.op(ino, Action::SetFlags { flags, time })?;
        child.now.flags.set(flags);
    }
    acl::inherit(txn, (parent.ino, &parent.now), &mut child, new.umask)?;
    if !planted::has(Logic::CreateNotTold) {
        txn.note(Record::Create {
            ino,
            born: child.now.born.get(),
        });
    }
    Ok(child)
}

/// Errors: `EEXIST` and others that forbid creating `name` in `parent`.
pub(crate) fn check_create(source: &mut impl Source, seed: [u64; 2], parent: (u64, &Inode), name: &[u8]) -> Step<()> {
    let (ino, inode) = parent;
    directory(inode)?;
    if is_dots(name) {
        return refuse(Errno::EEXIST);
    }
    check_name(name)?;
    if inode.nlink.get() == 0 {
        return refuse(Errno::ENOENT);
    }
    if has(inode, InodeFlags::IMMUTABLE) {
        // Only then is it worth knowing what Linux would say first.
        let exists = dir::find(source, seed, ino, inode.root.get(), name)?.is_some();
        return refuse(if exists { Errno::EEXIST } else { Errno::EPERM });
    }
    Ok(())
}

/// Gives `child` a name in `parent`, which was looked for `before` or not; times and counts of `parent` follow. Errors:
/// `EEXIST`.
pub(crate) fn add_name(
    txn: &mut Txn<'_>,
    seed: [u64; 2],
    parent: &mut Held,
    name: &[u8],
    (child, before): (&mut Held, Option<&Sight>),
    now: Time,
) -> Step<()> {
    let enter = Action::Enter {
        child: child.ino,
        kind: child.kind() as u8,
        time: moment(now),
        name,
    };
    txn.op(parent.ino, enter)?;
    parent.step();
    dir::insert(txn, seed, parent, name, (child.ino, child.kind()), before)?;
    if child.kind() == FileKind::Dir {
        parent.add_links(1);
        if child.now.parent.get() == 0 || !planted::has(Logic::ParentKept) {
            child.now.parent.set(parent.ino);
        }
    }
    parent.modified(now);
    txn.note(Record::Link {
        ino: child.ino,
        dir: parent.ino,
    });
    Ok(())
}

impl Volume {
    /// mknod(2) and mkdir(2).
    pub(crate) fn do_mknod(&self, by: For, parent: u64, name: &[u8], new: &NewInode) -> Result<Entry> {
        keepfs_store::planted::touch(name);
        match FileKind::of_mode(new.mode) {
            None | Some(FileKind::Symlink) => Err(Errno::EINVAL.into()),
            Some(_) => self.create(by, parent, name, new, &[]),
        }
    }

    /// symlink(2).
    pub(crate) fn do_symlink(&self, by: For, parent: u64, name: &[u8], target: &[u8], new: &NewInode) -> Result<Entry> {
        if target.is_empty() {
            return Err(Errno::ENOENT.into());
        }
        if target.len() > SYMLINK_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let new = NewInode {
            mode: FileKind::Symlink.type_bits() | 0o777,
            ..*new
        };
        self.create(by, parent, name, &new, target)
    }

    fn create(&self, by: For, parent: u64, name: &[u8], new: &NewInode, target: &[u8]) -> Result<Entry> {
        let lock = self.locks.exclusive(parent);
        let now = self.now();
        let (ino, inode) = self.change_once(by, |txn| {
            let mut dir = self.hold(txn, parent)?;
            check_create(txn, self.seed, (parent, &dir.now), name)?;
            let is_dir = new.mode & S_IFMT == FileKind::Dir.type_bits();
            if is_dir && dir.now.nlink.get() >= LINK_MAX {
                let exists = dir::find(txn, self.seed, parent, dir.now.root.get(), name)?.is_some();
                return refuse(if exists { Errno::EEXIST } else { Errno::EMLINK });
            }
            let mut child = newborn(txn, &dir, new, now)?;
            child.now.nlink.set(if is_dir { 2 } else { 1 });
            let (dir_ino, time) = (parent, moment(now));
            txn.op(child.ino, Action::Link { dir: dir_ino, time })?;
            add_name(txn, self.seed, &mut dir, name, (&mut child, None), now)?;
            set_target(txn, &mut child, target)?;
            child.put(txn)?;
            dir.put(txn)?;
            Ok((child.ino, child.now))
        })?;
        let entry = self.entry_once(by, ino, &inode);
        drop(lock);
        if !target.is_empty() {
            self.staged_more();
        }
        Ok(entry)
    }

    /// A regular file without a name.
    pub(crate) fn do_tmpfile(&self, by: For, parent: u64, new: &NewInode) -> Result<Entry> {
        let _lock = self.locks.exclusive(parent);
        let now = self.now();
        let new = NewInode {
            mode: FileKind::File.type_bits() | new.mode & PERMISSIONS,
            ..*new
        };
        let (ino, inode) = self.change_once(by, |txn| {
            let dir = self.hold(txn, parent)?;
            directory(&dir.now)?;
            // As ext4 answers of one that was removed.
            if has(&dir.now, InodeFlags::IMMUTABLE) || dir.now.nlink.get() == 0 {
                return refuse(Errno::EPERM);
            }
            let mut child = newborn(txn, &dir, &new, now)?;
            child.put(txn)?;
            txn.set_orphan(child.ino, true)?;
            Ok((child.ino, child.now))
        })?;
        let entry = self.entry_once(by, ino, &inode);
        self.lookups.set_linkable(ino, true);
        self.orphans.nameless(ino);
        Ok(entry)
    }

    /// The target of a symbolic link. Errors: `EINVAL`.
    pub(crate) fn do_readlink(&self, ino: u64) -> Result<Vec<u8>> {
        let lock = self.locks.shared(ino);
        let inode = self.see(|view| {
            let inode = self.usable(view, ino)?;
            if kind(&inode) == FileKind::Symlink {
                Ok(inode)
            } else {
                refuse(Errno::EINVAL)
            }
        })?;
        let mut target = vec![0; (inode.size.get() as usize).min(SYMLINK_MAX)];
        self.read_range(ino, &inode, 0, &mut target)?;
        drop(lock);
        self.accessed(ino, &inode)?;
        Ok(target)
    }
}

/// Stores the target of a new symbolic link: in the inode if it fits, else staged as page 0 (S-5.3).
fn set_target(txn: &mut Txn<'_>, link: &mut Held, target: &[u8]) -> Step<()> {
    if target.is_empty() {
        return Ok(());
    }
    let len = target.len() as u64;
    let bytes = if target.len() <= BODY { target } else { &[] };
    txn.op(link.ino, Action::Target { len, bytes })?;
    link.now.size.set(len);
    if target.len() <= BODY {
        link.now.body = BODY_INLINE;
        link.now.body_area[..target.len()].copy_from_slice(target);
        return Ok(());
    }
    link.now.body = BODY_NONE;
    txn.stage(link.ino, 0, link.version(), None, 0, target)?;
    Ok(())
}
