//! Names of what exists: lookup, link, unlink, rmdir.

use crate::Volume;
use crate::create::{add_name, check_create, check_name, directory, is_dots};
use crate::dir::{self, Found, Sight};
use crate::errors::{Result, Step, refuse};
use crate::inode::{Held, is_fixed, moment};
use crate::once::For;
use crate::orphan::nameless;
use keepfs_format::inode::Inode;
use keepfs_format::oplog::Action;
use keepfs_format::plog::Record;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Source, Txn};
use keepfs_vfs::{Entry, Errno, FileKind, LINK_MAX, Time};

/// How a step under guessed locks ended.
pub(crate) enum Try<T> {
    /// It is done.
    Done(T),
    /// The name leads elsewhere by now; lock that and try again.
    Moved,
}

impl Volume {
    /// The live entry of an ordinary name. Errors: `ENOENT`, `ENOTDIR`, those of [`check_name`].
    pub(crate) fn child(&self, source: &mut impl Source, parent: u64, inode: &Inode, name: &[u8]) -> Step<Found> {
        directory(inode)?;
        check_name(name)?;
        match dir::find(source, self.seed, parent, inode.root.get(), name)? {
            Some(found) => Ok(found),
            None => refuse(Errno::ENOENT),
        }
    }

    /// As [`Volume::child`], which may be asked again under more locks ([`Volume::child_again`]).
    pub(crate) fn sight(&self, source: &mut impl Source, parent: u64, inode: &Inode, name: &[u8]) -> Step<Sight> {
        directory(inode)?;
        check_name(name)?;
        dir::look(source, self.seed, parent, inode.root.get(), name)
    }

    /// The live entry of an ordinary name that `before` was seen of. Errors: as [`Volume::child`].
    pub(crate) fn child_again(
        &self,
        source: &mut impl Source,
        (parent, inode): (u64, &Inode),
        name: &[u8],
        before: &Sight,
    ) -> Step<Found> {
        directory(inode)?;
        match dir::look_again(source, self.seed, parent, inode.root.get(), name, before)? {
            Some(found) => Ok(found),
            None => refuse(Errno::ENOENT),
        }
    }

    /// The inode that a name leads to now, `.` and `..` too. Called with the parent's lock held.
    pub(crate) fn resolve(&self, parent: u64, name: &[u8]) -> Result<u64> {
        self.see(|view| {
            let inode = self.usable(view, parent)?;
            match name {
                b"." => directory(&inode).map(|()| parent),
                b".." if inode.nlink.get() == 0 => refuse(Errno::ENOENT),
                b".." => directory(&inode).map(|()| inode.parent.get()),
                _ => self.child(view, parent, &inode, name).map(|found| found.ino),
            }
        })
    }

    /// The entry of a name. The count is raised under the parent's lock, so the inode cannot end before it is read.
    pub(crate) fn do_lookup(&self, parent: u64, name: &[u8]) -> Result<Entry> {
        let ino = {
            let _lock = self.locks.shared(parent);
            let ino = self.resolve(parent, name)?;
            self.lookups.raise(ino);
            ino
        };
        let read = {
            let _lock = self.locks.shared(ino);
            self.see(|view| crate::inode::live(view, ino))
        };
        match read {
            Ok(inode) => Ok(Entry {
                attr: self.attr_of(ino, &inode),
            }),
            Err(error) => {
                self.do_forget(ino, 1);
                Err(error)
            }
        }
    }

    /// link(2).
    pub(crate) fn do_link(&self, by: For, ino: u64, parent: u64, name: &[u8]) -> Result<Entry> {
        drop(self.settled(ino));
        let _locks = self.locks.all([ino, parent]);
        self.finish_cut(ino)?;
        let now = self.now();
        let (_, inode) = self.change_once(by, |txn| {
            // The same inode twice is a directory, which the check refuses.
            let (mut file, mut dir) = (self.hold(txn, ino)?, self.hold(txn, parent)?);
            check_create(txn, self.seed, (parent, &dir.now), name)?;
            self.check_link(txn, &dir, &file, name)?;
            add_name(txn, self.seed, &mut dir, name, (&mut file, None), now)?;
            if file.now.nlink.get() == 0 && !planted::has(Logic::NotUnhidden) {
                txn.set_orphan(ino, false)?;
            }
            let link = Action::Link {
                dir: parent,
                time: moment(now),
            };
            txn.op(ino, link)?;
            if file.now.nlink.get() == 0 || !planted::has(Logic::LinkNotCounted) {
                file.add_links(1);
            }
            file.changed(now);
            file.put(txn)?;
            dir.put(txn)?;
            Ok((ino, file.now))
        })?;
        if inode.nlink.get() == 1 {
            self.orphans.left(ino);
            self.lookups.set_linkable(ino, false);
        }
        Ok(self.entry_once(by, ino, &inode))
    }

    /// Errors: `EEXIST` first, then what forbids another name for `file`.
    fn check_link(&self, txn: &mut Txn<'_>, dir: &Held, file: &Held, name: &[u8]) -> Step<()> {
        let nlink = file.now.nlink.get();
        let errno = if is_fixed(&file.now) || file.kind() == FileKind::Dir {
            Errno::EPERM
        } else if nlink == 0 && !self.lookups.is_linkable(file.ino) {
            Errno::ENOENT
        } else if nlink >= LINK_MAX {
            Errno::EMLINK
        } else {
            return Ok(());
        };
        let exists = dir::find(txn, self.seed, dir.ino, dir.now.root.get(), name)?.is_some();
        refuse(if exists { Errno::EEXIST } else { errno })
    }

    /// unlink(2).
    pub(crate) fn do_unlink(&self, by: For, parent: u64, name: &[u8]) -> Result<()> {
        self.remove_name(by, parent, name, false)
    }

    /// rmdir(2).
    pub(crate) fn do_rmdir(&self, by: For, parent: u64, name: &[u8]) -> Result<()> {
        self.remove_name(by, parent, name, true)
    }

    fn remove_name(&self, by: For, parent: u64, name: &[u8], as_dir: bool) -> Result<()> {
        let now = self.now();
        loop {
            let sight = {
                let _lock = self.locks.shared(parent);
                self.see(|view| {
                    let inode = self.usable(view, parent)?;
                    directory(&inode)?;
                    check_dots(name, as_dir)?;
                    self.sight(view, parent, &inode, name)
                })?
            };
            let Some(ino) = sight.found.map(|found| found.ino) else {
                return Err(Errno::ENOENT.into());
            };
            let locks = self.locks.all([parent, ino]);
            let tried = self.change_once(by, |txn| {
                let tried = self.remove_step(txn, (parent, ino), name, &sight, as_dir, now)?;
                Ok((0, tried))
            });
            let hidden = match tried {
                Ok((_, Try::Done(hidden))) => hidden,
                Ok((_, Try::Moved)) => continue,
                Err(error) if error.errno() == Some(Errno::ENOTEMPTY) => {
                    drop(locks);
                    return Err(self.not_empty(ino));
                }
                Err(error) => return Err(error),
            };
            if hidden {
                self.orphans.unlinked(ino);
            }
            drop(locks);
            if hidden && !self.lookups.held(ino) {
                self.unlinked_more(ino);
            }
            return Ok(());
        }
    }

    /// Removes the name if it still leads to the inode that is locked; tells whether that is on the hidden list then.
    fn remove_step(
        &self,
        txn: &mut Txn<'_>,
        (parent, ino): (u64, u64),
        name: &[u8],
        sight: &Sight,
        as_dir: bool,
        now: Time,
    ) -> Step<Try<bool>> {
        let mut dir = self.hold(txn, parent)?;
        let found = self.child_again(txn, (parent, &dir.now), name, sight)?;
        if found.ino != ino {
            return Ok(Try::Moved);
        }
        if ino == parent {
            return Err(crate::errors::damaged(ino, "a directory names itself (S-6.6)"));
        }
        let mut victim = Held::load(txn, ino)?;
        check_delete(&dir.now, &victim, as_dir)?;
        if as_dir && victim.now.entries.get() > 0 {
            return refuse(Errno::ENOTEMPTY);
        }
        let leave = Action::Leave {
            child: ino,
            kind: victim.kind() as u8,
            time: moment(now),
            name,
        };
        txn.op(parent, leave)?;
        dir.step();
        dir::remove(txn, &mut dir, &found)?;
        dir.modified(now);
        if as_dir {
            dir.add_links(-1);
        }
        let hidden = self.drop_link(txn, &mut victim, parent, now)?;
        victim.put(txn)?;
        dir.put(txn)?;
        Ok(Try::Done(hidden))
    }

    /// One name less; without names the inode ends, or goes on the hidden list (S-5.6): tells whether it is there. A directory
    /// has only one. Called with the locks of both: who looks the name up waits, so nobody comes to hold what nobody holds.
    pub(crate) fn drop_link(&self, txn: &mut Txn<'_>, victim: &mut Held, parent: u64, now: Time) -> Step<bool> {
        let left = if victim.kind() == FileKind::Dir {
            0
        } else {
            victim.now.nlink.get().saturating_sub(1)
        };
        let unlink = Action::Unlink {
            dir: parent,
            time: moment(now),
        };
        txn.op(victim.ino, unlink)?;
        victim.now.nlink.set(left);
        victim.changed(now);
        if !planted::has(Logic::UnlinkNotTold) {
            txn.note(Record::Unlink {
                ino: victim.ino,
                dir: parent,
                nlink: left,
                born: victim.now.born.get(),
            });
        }
        match left {
            0 => nameless(txn, victim, self.lookups.held(victim.ino)),
            _ => Ok(false),
        }
    }
}

/// Errors: what unlink(2) and rmdir(2) say to `.` and `..`.
fn check_dots(name: &[u8], as_dir: bool) -> Step<()> {
    match (name, as_dir) {
        (b".", true) => refuse(Errno::EINVAL),
        (b"..", true) => refuse(Errno::ENOTEMPTY),
        _ if is_dots(name) => refuse(Errno::EISDIR),
        _ => Ok(()),
    }
}

/// Whether the name of `victim` can be taken away from `parent`. Errors: `EPERM`, `ENOTDIR`, `EISDIR`.
pub(crate) fn check_delete(parent: &Inode, victim: &Held, as_dir: bool) -> Step<()> {
    if is_fixed(parent) || is_fixed(&victim.now) {
        return refuse(Errno::EPERM);
    }
    match (as_dir, victim.kind() == FileKind::Dir) {
        (true, false) => refuse(Errno::ENOTDIR),
        (false, true) => refuse(Errno::EISDIR),
        _ => Ok(()),
    }
}
