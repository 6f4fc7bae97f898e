//! An inode as this floor works on it: read, checked, changed in memory, written back as a difference.

use crate::errors::{Step, damaged};
use keepfs_format::inode::{
    self, BODY_DIRECT, BODY_INLINE, BODY_NONE, BODY_TREE, HOLE_END, Hole, Inode, LIVE, XATTR, XATTR_CHAIN,
};
use keepfs_format::oplog::{self, Action, Attrs, Moment};
use keepfs_format::{FromZeros, IntoBytes, Kind, Space, bitmap, blockmap};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Meaning, Ref, Source, Txn};
use keepfs_vfs::{Attr, Errno, FileKind, Ino, InodeFlags, Time};

/// An inode read in a transaction, and what it shall become. `put` writes only what differs (S-5.2).
pub(crate) struct Held {
    /// Its number.
    pub ino: u64,
    /// As it was read.
    old: Inode,
    /// As it shall be.
    pub now: Inode,
}

impl Held {
    /// Reads a live inode. Errors: `ESTALE` if it is not live.
    pub fn load(source: &mut impl Source, ino: u64) -> Step<Held> {
        let old = live(source, ino)?;
        Ok(Held { ino, old, now: old })
    }

    /// A new life of the free number `ino` (S-5.5): LIVE, born and cur set, everything else zero.
    pub fn newborn(source: &mut impl Source, ino: u64) -> Step<Held> {
        let old = raw(source, ino)?;
        let born = match old.state.get() {
            0 => 1,
            inode::DEAD if planted::has(Logic::GenerationAgain) => old.cur.get(),
            inode::DEAD => old.cur.get().saturating_add(1),
            _ => return Err(damaged(ino, "a free inode number is in use")),
        };
        let mut now = Inode::new_zeroed();
        now.state.set(LIVE);
        now.born.set(born);
        now.cur.set(born);
        Ok(Held { ino, old, now })
    }

    /// Writes the difference.
    pub fn put(&mut self, txn: &mut Txn<'_>) -> Step<()> {
        if self.old != self.now {
            if (self.old.root, self.old.xattrs) != (self.now.root, self.now.xattrs) {
                let (root, xattrs) = (self.now.root.get(), self.now.xattrs.get());
                txn.op(self.ino, Action::Roots { root, xattrs })?;
            }
            let (old, new) = (self.old.as_bytes(), self.now.as_bytes());
            txn.put_diff(
                Ref::inode_block(self.ino),
                inode::offset_of(self.ino),
                old,
                new,
                Meaning::Inode,
            )?;
            self.old = self.now;
        }
        Ok(())
    }

    /// The low bits of the current version, as entries carry it.
    pub fn version(&self) -> u32 {
        self.now.cur.get() as u32
    }

    /// One more version: its contents change (S-5.2).
    pub fn step(&mut self) {
        self.now.cur.set(self.now.cur.get().saturating_add(1));
    }

    /// Stamps the change time.
    pub fn changed(&mut self, now: Time) {
        set_time(&mut self.now, Stamp::Change, now);
    }

    /// Stamps modification and change time.
    pub fn modified(&mut self, now: Time) {
        set_time(&mut self.now, Stamp::Modify, now);
        set_time(&mut self.now, Stamp::Change, now);
    }

    /// Adds to the link count, never below zero.
    pub fn add_links(&mut self, by: i32) {
        self.now.nlink.set(self.now.nlink.get().saturating_add_signed(by));
    }

    /// What it is.
    pub fn kind(&self) -> FileKind {
        kind(&self.now)
    }
}

/// Which time of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamp {
    /// Last access.
    Access,
    /// Last modification.
    Modify,
    /// Last change.
    Change,
    /// Birth.
    Birth,
}

/// A time as the operation log carries it (S-12.3).
pub(crate) fn moment(time: Time) -> Moment {
    Moment {
        sec: time.sec,
        nsec: time.nsec,
    }
}

/// Sets one time.
pub(crate) fn set_time(inode: &mut Inode, which: Stamp, time: Time) {
    let (sec, nsec) = match which {
        Stamp::Access => (&mut inode.atime, &mut inode.atime_nsec),
        Stamp::Modify => (&mut inode.mtime, &mut inode.mtime_nsec),
        Stamp::Change => (&mut inode.ctime, &mut inode.ctime_nsec),
        Stamp::Birth => (&mut inode.btime, &mut inode.btime_nsec),
    };
    sec.set(time.sec);
    nsec.set(time.nsec);
}

/// Reads one time.
pub(crate) fn time(inode: &Inode, which: Stamp) -> Time {
    let (sec, nsec) = match which {
        Stamp::Access => (inode.atime, inode.atime_nsec),
        Stamp::Modify => (inode.mtime, inode.mtime_nsec),
        Stamp::Change => (inode.ctime, inode.ctime_nsec),
        Stamp::Birth => (inode.btime, inode.btime_nsec),
    };
    Time {
        sec: sec.get(),
        nsec: nsec.get().min(999_999_999),
    }
}

/// The bytes of an inode number, whatever they are.
pub(crate) fn raw(source: &mut impl Source, ino: u64) -> Step<Inode> {
    let mut inode = Inode::new_zeroed();
    source.read(Ref::inode_block(ino), inode::offset_of(ino), inode.as_mut_bytes())?;
    Ok(inode)
}

/// A live inode whose fields obey S-5.2. Errors: `ESTALE` if the number is not in use.
pub(crate) fn live(source: &mut impl Source, ino: u64) -> Step<Inode> {
    if ino == 0 || ino > INO_MAX {
        return crate::errors::refuse(Errno::ESTALE);
    }
    let inode = raw(source, ino)?;
    match inode.state.get() {
        LIVE => {
            let inode = check(ino, inode)?;
            match inode.hole() {
                None => Ok(inode),
                Some(_) => with_hole(source, ino, inode),
            }
        }
        0 | inode::DEAD => crate::errors::refuse(Errno::ESTALE),
        _ => Err(damaged(ino, "state is neither live nor dead (S-1.3)")),
    }
}

/// An inode with a pending hole, which is on the hidden list (S-5.8). Who holds no lock of it may meet the end of the hole
/// between the two looks.
#[cold]
fn with_hole(source: &mut impl Source, ino: u64, mut inode: Inode) -> Step<Inode> {
    while !is_listed(source, ino)? {
        let again = raw(source, ino)?;
        if again == inode {
            return Err(damaged(ino, "its pending hole is not on the hidden list (S-5.8)"));
        }
        inode = check(ino, again)?;
        if inode.hole().is_none() {
            break;
        }
    }
    Ok(inode)
}

/// Whether the hidden list has the inode. Its bit belongs to whoever holds its lock.
pub(crate) fn is_listed(source: &mut impl Source, ino: u64) -> Step<bool> {
    let (id, offset, mask) = bitmap::bit(Space::Orphans, ino);
    let (kind, owner, mut byte) = (Kind::Bitmap, 0, [0]);
    source.read(Ref { id, kind, owner }, offset, &mut byte)?;
    Ok(byte[0] & mask != 0)
}

/// Greatest number an inode can have: its metablock index must fit (S-3.1).
const INO_MAX: u64 = (1 << 56) - 1;

/// Refuses fields outside S-5.2, so that nothing behind needs to look again (promise C-8).
fn check(ino: u64, inode: Inode) -> Step<Inode> {
    let height_ok = match inode.body {
        BODY_NONE | BODY_INLINE | BODY_DIRECT => inode.height == 0,
        BODY_TREE => (1..=blockmap::HEIGHT_MAX).contains(&inode.height) && inode.root.get() != 0,
        _ => false,
    };
    if !height_ok {
        return Err(damaged(ino, "body or height out of range (S-5.2)"));
    }
    if FileKind::of_mode(inode.mode.get()).is_none() {
        return Err(damaged(ino, "mode has no valid type (S-5.2)"));
    }
    if inode.size.get() > blockmap::FILE_SIZE_MAX {
        return Err(damaged(ino, "size out of range (S-5.2)"));
    }
    if inode.body == BODY_INLINE && inode.size.get() > inode::BODY as u64 {
        return Err(damaged(ino, "inline body longer than its area (S-5.3)"));
    }
    let is_sane = |hole: Hole| hole.from.get() < hole.to.get() && hole.to.get() <= HOLE_END;
    if inode.hole().is_some_and(|hole| !is_sane(hole)) {
        return Err(damaged(ino, "pending hole out of range (S-5.8)"));
    }
    let xattr = inode.xattr.get();
    if xattr != XATTR_CHAIN && usize::from(xattr) > XATTR {
        return Err(damaged(ino, "xattr length out of range (S-5.2)"));
    }
    Ok(inode)
}

/// What an inode is; its mode was checked when it was read.
pub(crate) fn kind(inode: &Inode) -> FileKind {
    FileKind::of_mode(inode.mode.get()).unwrap_or(FileKind::File)
}

/// The pages of a hole that is being made: a hole whatever their entries say (S-5.8). Empty if there is none.
pub(crate) fn pending_hole(inode: &Inode) -> core::ops::Range<u64> {
    inode.hole().map_or(0..0, |hole| hole.from.get()..hole.to.get())
}

/// Whether all bits of `flags` are set.
pub(crate) fn has(inode: &Inode, flags: InodeFlags) -> bool {
    InodeFlags(inode.flags.get()).has(flags)
}

/// Whether the inode may not be changed at all or only appended to.
pub(crate) fn is_fixed(inode: &Inode) -> bool {
    has(inode, InodeFlags::IMMUTABLE) || has(inode, InodeFlags::APPEND)
}

/// Clears the set-id bits as a write by an ordinary user does: set-group-id only with group execution.
pub(crate) fn kill_set_id(mode: u32) -> u32 {
    let without_uid = mode & !keepfs_vfs::S_ISUID;
    if mode & 0o010 != 0 {
        without_uid & !keepfs_vfs::S_ISGID
    } else {
        without_uid
    }
}

/// Pages in units of 512 bytes, as stat(2) counts.
pub(crate) fn blocks(pages: u64) -> u64 {
    pages.saturating_mul(keepfs_format::PAGE as u64 / 512)
}

/// The attributes as stat(2) shows them, by the inode alone. A directory shows the size of a page.
pub(crate) fn attr(ino: u64, inode: &Inode) -> Attr {
    let is_dir = kind(inode) == FileKind::Dir;
    Attr {
        ino: Ino(ino),
        generation: inode.born.get(),
        mode: inode.mode.get(),
        nlink: inode.nlink.get(),
        uid: inode.uid.get(),
        gid: inode.gid.get(),
        rdev: inode.rdev.get(),
        size: if is_dir {
            keepfs_format::PAGE as u64
        } else {
            inode.size.get()
        },
        blocks: blocks(if is_dir { 1 } else { inode.pages.get() }),
        atime: time(inode, Stamp::Access),
        mtime: time(inode, Stamp::Modify),
        ctime: time(inode, Stamp::Change),
        btime: time(inode, Stamp::Birth),
        flags: InodeFlags(inode.flags.get()),
    }
}

/// Puts an inode on the hidden list, unless an unfinished cut or hole has put it there.
pub(crate) fn hide(txn: &mut Txn<'_>, file: &Held) -> Step<()> {
    match is_listed(txn, file.ino)? {
        true => Ok(()),
        false => Ok(txn.set_orphan(file.ino, true)?),
    }
}

/// Takes an inode with names off the hidden list.
pub(crate) fn unhide(txn: &mut Txn<'_>, file: &Held) -> Step<()> {
    match file.now.nlink.get() > 0 && is_listed(txn, file.ino)? {
        true => Ok(txn.set_orphan(file.ino, false)?),
        false => Ok(()),
    }
}

/// Tells the operation log of the permission bits that an ACL or the umask made.
pub(crate) fn tell_mode(txn: &mut Txn<'_>, held: &Held) -> Step<()> {
    let attrs = Attrs {
        set: oplog::attr::MODE,
        mode: held.now.mode.get(),
        ..Attrs::default()
    };
    Ok(txn.op(held.ino, Action::SetAttr { attrs })?)
}
