//! rename with its flags. The order of checks is that of `do_renameat2` and `vfs_rename` of Linux.

use crate::Volume;
use crate::create::{add_name, check_create, directory, is_dots, newborn};
use crate::dir::{self, Found, Sight};
use crate::errors::{Error, Result, Step, refuse};
use crate::inode::{self, Held, moment};
use crate::link::{Try, check_delete};
use crate::once::For;
use keepfs_format::inode::Inode;
use keepfs_format::oplog::Action;
use keepfs_format::plog::Record;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Source, Txn};
use keepfs_vfs::{Errno, FileKind, Ino, LINK_MAX, NewInode, RenameFlags, Time};

/// A directory and a name in it.
type Place<'a> = (u64, &'a [u8]);
/// Deepest tree of directories that is walked upward.
const DEPTH_MAX: usize = 1 << 20;

/// One rename: from where to where, and which inodes it found there.
#[derive(Clone, Copy)]
struct Move<'a> {
    old: Place<'a>,
    new: Place<'a>,
    flags: RenameFlags,
    source: u64,
    /// What has the new name, or 0.
    target: u64,
    /// Both names as they were seen.
    seen: &'a Seen,
    /// What the way from the root forbids.
    looped: Option<Errno>,
    now: Time,
}

/// What the old and the new name led to before all locks were held.
struct Seen {
    old: Sight,
    new: Sight,
}

/// Errors: what rename(2) says to `.` and `..`.
fn check_dots(old: Place<'_>, new: Place<'_>, flags: RenameFlags) -> Step<()> {
    if is_dots(old.1) {
        return refuse(Errno::EBUSY);
    }
    match is_dots(new.1) {
        true if flags.no_replace => refuse(Errno::EEXIST),
        true => refuse(Errno::EBUSY),
        false => Ok(()),
    }
}

/// Errors: `EEXIST` and `ENOENT` as the flags say of what has the new name.
fn check_target(found: Option<Found>, flags: RenameFlags) -> Step<()> {
    match found {
        Some(_) if flags.no_replace => refuse(Errno::EEXIST),
        None if flags.exchange => refuse(Errno::ENOENT),
        _ => Ok(()),
    }
}

impl Volume {
    /// renameat2(2).
    pub(crate) fn do_rename(&self, by: For, old: Place<'_>, new: Place<'_>, flags: RenameFlags) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout.is_some()) {
            return Err(Errno::EINVAL.into());
        }
        let now = self.now();
        // Directories move only under this lock, so who lies above whom stays true.
        let _rename = (old.0 != new.0).then(|| self.locks.rename());
        loop {
            let seen = self.guess(old, new, flags)?;
            let Some(from) = seen.old.found else {
                return Err(Errno::ENOENT.into());
            };
            let to = seen.new.found;
            let (source, target) = (from.ino, to.map_or(0, |found| found.ino));
            let locks = self.locks.all([old.0, new.0, source, target]);
            let looped = self.check_no_loop((old.0, new.0), from, to, flags)?;
            let moving = Move {
                old,
                new,
                flags,
                source,
                target,
                seen: &seen,
                looped,
                now,
            };
            let gone = match self.change_once(by, |txn| Ok((0, self.rename_step(txn, moving)?))) {
                Ok((_, Try::Done(gone))) => gone,
                Ok((_, Try::Moved)) => continue,
                Err(error) if error.errno() == Some(Errno::ENOTEMPTY) && looped.is_none() => {
                    drop(locks);
                    return Err(self.not_empty(target));
                }
                Err(error) => return Err(error),
            };
            if gone != 0 {
                self.orphans.unlinked(gone);
            }
            drop(locks);
            if gone != 0 && !self.lookups.held(gone) {
                self.unlinked_more(gone);
            }
            return Ok(());
        }
    }

    /// What both names lead to now; asked again under all locks.
    fn guess(&self, old: Place<'_>, new: Place<'_>, flags: RenameFlags) -> Result<Seen> {
        if old.0 == new.0 {
            let _lock = self.locks.shared(old.0);
            return self.see(|view| {
                let dir = self.parent(view, old.0)?;
                check_dots(old, new, flags)?;
                Ok(Seen {
                    old: self.source(view, old, &dir)?,
                    new: self.target(view, new, &dir, flags)?,
                })
            });
        }
        for dir in [old.0, new.0] {
            let _lock = self.locks.shared(dir);
            self.see(|view| self.parent(view, dir))?;
        }
        crate::errors::seen(check_dots(old, new, flags))?;
        let source = {
            let _lock = self.locks.shared(old.0);
            self.see(|view| {
                let dir = self.usable(view, old.0)?;
                self.source(view, old, &dir)
            })?
        };
        let _lock = self.locks.shared(new.0);
        let target = self.see(|view| {
            let dir = self.usable(view, new.0)?;
            self.target(view, new, &dir, flags)
        })?;
        Ok(Seen {
            old: source,
            new: target,
        })
    }

    /// A directory that names move from or to. Errors: `ENOTDIR`; `ENOENT` if it is gone.
    fn parent(&self, source: &mut impl Source, ino: u64) -> Step<Inode> {
        let inode = self.usable(source, ino)?;
        directory(&inode)?;
        match inode.nlink.get() {
            0 => refuse(Errno::ENOENT),
            _ => Ok(inode),
        }
    }

    /// What has the old name. Errors: `ENOENT`.
    fn source(&self, source: &mut impl Source, old: Place<'_>, dir: &Inode) -> Step<Sight> {
        match self.sight(source, old.0, dir, old.1)? {
            sight if sight.found.is_some() => Ok(sight),
            _ => refuse(Errno::ENOENT),
        }
    }

    /// What has the new name. Errors: those of [`check_target`].
    fn target(&self, source: &mut impl Source, new: Place<'_>, dir: &Inode, flags: RenameFlags) -> Step<Sight> {
        let sight = self.sight(source, new.0, dir, new.1)?;
        check_target(sight.found, flags)?;
        Ok(sight)
    }

    /// The transaction; tells the inode that went on the hidden list, or 0.
    fn rename_step(&self, txn: &mut Txn<'_>, m: Move<'_>) -> Step<Try<u64>> {
        let mut old_dir = Held::load(txn, m.old.0)?;
        let mut new_dir = if m.old.0 == m.new.0 {
            None
        } else {
            Some(Held::load(txn, m.new.0)?)
        };
        let new_inode = new_dir.as_ref().map_or(old_dir.now, |dir| dir.now);
        if old_dir.now.nlink.get() == 0 || new_inode.nlink.get() == 0 {
            return refuse(Errno::ENOENT);
        }
        let from = self.child_again(txn, (m.old.0, &old_dir.now), m.old.1, &m.seen.old)?;
        directory(&new_inode)?;
        let (root, seen) = (new_inode.root.get(), &m.seen.new);
        let to = dir::look_again(txn, self.seed, m.new.0, root, m.new.1, seen)?;
        check_target(to, m.flags)?;
        if from.ino != m.source || to.map_or(0, |f| f.ino) != m.target {
            return Ok(Try::Moved);
        }
        if let Some(errno) = m.looped {
            return refuse(errno);
        }
        if m.source == m.target {
            return Ok(Try::Done(0));
        }
        let mut source = Held::load(txn, m.source)?;
        let mut target = if m.target == 0 {
            None
        } else {
            Some(Held::load(txn, m.target)?)
        };
        self.check_rename(txn, &m, (&old_dir.now, &new_inode), &source, target.as_ref())?;
        let mut gone = 0;
        match (&mut target, to) {
            (Some(target), Some(to)) if m.flags.exchange => {
                exchange(
                    txn,
                    &m,
                    (&mut old_dir, new_dir.as_mut()),
                    (&mut source, &from),
                    (target, &to),
                )?;
            }
            _ => {
                gone = self.replace(
                    txn,
                    &m,
                    (&mut old_dir, &mut new_dir),
                    (&mut source, &from),
                    target.as_mut(),
                )?
            }
        }
        source.changed(m.now);
        source.put(txn)?;
        for held in [target.as_mut(), Some(&mut old_dir), new_dir.as_mut()]
            .into_iter()
            .flatten()
        {
            held.put(txn)?;
        }
        Ok(Try::Done(gone))
    }

    /// What forbids the move: no directory may come to lie below itself, and none that holds the source is empty.
    fn check_no_loop(
        &self,
        (old_dir, new_dir): (u64, u64),
        source: Found,
        target: Option<Found>,
        flags: RenameFlags,
    ) -> Result<Option<Errno>> {
        if source.kind == FileKind::Dir && self.is_at_or_above(source.ino, new_dir)? {
            return Ok(Some(Errno::EINVAL));
        }
        if let Some(target) = target
            && target.kind == FileKind::Dir
            && self.is_at_or_above(target.ino, old_dir)?
        {
            return Ok(Some(if flags.exchange {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            }));
        }
        Ok(None)
    }

    /// Whether the directory `ancestor` is `ino` or above it. Parents change only under the rename lock, and a
    /// directory with something in it stays, so the way up needs no locks.
    fn is_at_or_above(&self, ancestor: u64, ino: u64) -> Result<bool> {
        // Whatever ring there is: it comes by where it was at some step whose number is a power of two.
        let (mut at, mut was) = (ino, 0);
        for step in 1..DEPTH_MAX {
            if at == ancestor || at == Ino::ROOT.0 {
                return Ok(at == ancestor);
            }
            let inode = self.see(|view| inode::live(view, at))?;
            if at == was {
                break;
            }
            if step.is_power_of_two() {
                was = at;
            }
            at = inode.parent.get();
        }
        Err(Error::Damaged {
            ino,
            what: "the directories above it make a ring (S-5.2)",
        })
    }

    fn check_rename(
        &self,
        txn: &mut Txn<'_>,
        m: &Move<'_>,
        (old_dir, new_dir): (&Inode, &Inode),
        source: &Held,
        target: Option<&Held>,
    ) -> Step<()> {
        let source_is_dir = source.kind() == FileKind::Dir;
        check_delete(old_dir, source, source_is_dir)?;
        let target_is_dir = target.is_some_and(|t| t.kind() == FileKind::Dir);
        match target {
            None => check_create(txn, self.seed, (m.new.0, new_dir), m.new.1)?,
            Some(target) => {
                check_delete(
                    new_dir,
                    target,
                    if m.flags.exchange { target_is_dir } else { source_is_dir },
                )?;
            }
        }
        if m.old.0 != m.new.0 {
            let gains = |dir: &Inode, gained: bool, lost: bool| gained && !lost && dir.nlink.get() >= LINK_MAX;
            if gains(new_dir, source_is_dir, target_is_dir)
                || gains(old_dir, m.flags.exchange && target_is_dir, source_is_dir)
            {
                return refuse(Errno::EMLINK);
            }
        }
        if !m.flags.exchange && target.is_some_and(|t| t.now.entries.get() > 0) && target_is_dir {
            return refuse(Errno::ENOTEMPTY);
        }
        Ok(())
    }

    /// Moves the name, over another one or not; tells the inode that went on the hidden list, or 0.
    fn replace(
        &self,
        txn: &mut Txn<'_>,
        m: &Move<'_>,
        (old_dir, new_dir): (&mut Held, &mut Option<Held>),
        (source, from): (&mut Held, &Found),
        target: Option<&mut Held>,
    ) -> Step<u64> {
        let is_dir = source.kind() == FileKind::Dir;
        tell_moved(txn, source, (m.old.0, m.new.0), m.now)?;
        old_dir.step();
        let mut gone = 0;
        if let Some(owner) = m.flags.whiteout {
            let white = NewInode::of(owner, FileKind::Char.type_bits());
            let mut whiteout = newborn(txn, old_dir, &white, m.now)?;
            whiteout.now.nlink.set(1);
            let (dir, time) = (old_dir.ino, moment(m.now));
            txn.op(whiteout.ino, Action::Link { dir, time })?;
            whiteout.put(txn)?;
            tell_point(txn, m.old, &whiteout, source, m.now)?;
            dir::replace(txn, from, whiteout.ino, FileKind::Char)?;
            txn.note(Record::Link {
                ino: whiteout.ino,
                dir: old_dir.ino,
            });
        } else {
            let leave = Action::Leave {
                child: source.ino,
                kind: source.kind() as u8,
                time: moment(m.now),
                name: m.old.1,
            };
            txn.op(old_dir.ino, leave)?;
            dir::remove(txn, old_dir, from)?;
        }
        if is_dir {
            old_dir.add_links(-1);
        }
        old_dir.modified(m.now);
        txn.note(Record::Unlink {
            ino: source.ino,
            dir: old_dir.ino,
            nlink: source.now.nlink.get(),
            born: source.now.born.get(),
        });
        let into = new_dir.as_mut().unwrap_or(old_dir);
        let Some(target) = target else {
            add_name(txn, self.seed, into, m.new.1, (source, Some(&m.seen.new)), m.now)?;
            return Ok(gone);
        };
        // Found again: removing the old name may have changed the leaf.
        let to = self.child(txn, into.ino, &into.now, m.new.1)?;
        tell_point(txn, m.new, source, target, m.now)?;
        into.step();
        dir::replace(txn, &to, source.ino, source.kind())?;
        into.modified(m.now);
        txn.note(Record::Link {
            ino: source.ino,
            dir: into.ino,
        });
        if is_dir {
            source.now.parent.set(into.ino);
        } else {
            debug_assert!(target.kind() != FileKind::Dir);
        }
        if self.drop_link(txn, target, into.ino, m.now)? {
            gone = target.ino;
        }
        Ok(gone)
    }
}

/// Tells the operation log that a name of `moved` goes from one directory to another.
fn tell_moved(txn: &mut Txn<'_>, moved: &Held, (from, to): (u64, u64), now: Time) -> Step<()> {
    let time = moment(now);
    Ok(txn.op(moved.ino, Action::Move { from, to, time })?)
}

/// Tells the operation log that an entry that led to `was` leads to `child`.
fn tell_point(txn: &mut Txn<'_>, (dir, name): Place<'_>, child: &Held, was: &Held, now: Time) -> Step<()> {
    let point = Action::Point {
        child: child.ino,
        kind: child.kind() as u8,
        was: if planted::has(Logic::PointToldWrong) {
            child.ino
        } else {
            was.ino
        },
        was_kind: was.kind() as u8,
        time: moment(now),
        name,
    };
    Ok(txn.op(dir, point)?)
}

/// Exchanges two names.
fn exchange(
    txn: &mut Txn<'_>,
    m: &Move<'_>,
    (old_dir, new_dir): (&mut Held, Option<&mut Held>),
    (source, from): (&mut Held, &Found),
    (target, to): (&mut Held, &Found),
) -> Step<()> {
    if m.old.0 == m.new.0 {
        let exchange = Action::Exchange {
            first: source.ino,
            second: target.ino,
            time: moment(m.now),
            name: m.old.1,
            other: m.new.1,
        };
        txn.op(m.old.0, exchange)?;
    } else {
        tell_point(txn, m.old, target, source, m.now)?;
        tell_point(txn, m.new, source, target, m.now)?;
    }
    tell_moved(txn, source, (m.old.0, m.new.0), m.now)?;
    tell_moved(txn, target, (m.new.0, m.old.0), m.now)?;
    dir::replace(txn, from, target.ino, target.kind())?;
    dir::replace(txn, to, source.ino, source.kind())?;
    old_dir.step();
    old_dir.modified(m.now);
    let new_ino = m.new.0;
    if let Some(new_dir) = new_dir {
        new_dir.step();
        new_dir.modified(m.now);
        for (moved, gains, loses) in [(&*source, 1, -1), (&*target, -1, 1)] {
            if moved.kind() == FileKind::Dir && !planted::has(Logic::ExchangeKeepsLinks) {
                new_dir.add_links(gains);
                old_dir.add_links(loses);
            }
        }
    }
    for (moved, was, dir) in [(source, old_dir.ino, new_ino), (target, new_ino, old_dir.ino)] {
        if moved.kind() == FileKind::Dir {
            moved.now.parent.set(dir);
        }
        moved.changed(m.now);
        txn.note(Record::Unlink {
            ino: moved.ino,
            dir: was,
            nlink: moved.now.nlink.get(),
            born: moved.now.born.get(),
        });
        txn.note(Record::Link { ino: moved.ino, dir });
    }
    Ok(())
}
