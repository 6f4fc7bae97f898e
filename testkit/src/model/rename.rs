//! rename with its flags. The order of checks is that of `do_renameat2` and `vfs_rename` of Linux.

use super::state::{State, is_dots};
use keepfs_vfs::{Errno, FileKind, Ino, LINK_MAX, NewInode, Owner, RenameFlags, Result, Time};

/// A directory and a name in it.
type Place<'a> = (Ino, &'a [u8]);

impl State {
    pub(super) fn rename(&mut self, old: Place<'_>, new: Place<'_>, flags: RenameFlags, now: Time) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout.is_some()) {
            return Err(Errno::EINVAL);
        }
        for dir in [old.0, new.0] {
            let inode = self.inode(dir)?;
            inode.dir()?;
            if inode.nlink == 0 {
                return Err(Errno::ENOENT);
            }
        }
        if is_dots(old.1) {
            return Err(Errno::EBUSY);
        }
        if is_dots(new.1) {
            return Err(if flags.no_replace { Errno::EEXIST } else { Errno::EBUSY });
        }
        let source = self.child(old.0, old.1)?;
        let target = self.rename_target(new, flags)?;
        self.check_no_loop(source, target, old.0, new.0, flags)?;
        if target == Some(source) {
            return Ok(());
        }
        self.check_rename(source, target, old.0, new, flags)?;
        match target {
            Some(target) if flags.exchange => self.exchange(old, source, new, target, now),
            _ => self.replace(old, source, new, target, flags, now),
        }
    }

    /// What has the new name. Errors: `EEXIST` and `ENOENT` as the flags say.
    fn rename_target(&self, new: Place<'_>, flags: RenameFlags) -> Result<Option<Ino>> {
        match self.child(new.0, new.1) {
            Ok(_) if flags.no_replace => Err(Errno::EEXIST),
            Ok(ino) => Ok(Some(ino)),
            Err(Errno::ENOENT) if flags.exchange => Err(Errno::ENOENT),
            Err(Errno::ENOENT) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// No directory may come to lie below itself, and none that holds the source is empty.
    fn check_no_loop(
        &self,
        source: Ino,
        target: Option<Ino>,
        old_dir: Ino,
        new_dir: Ino,
        flags: RenameFlags,
    ) -> Result<()> {
        if self.is_at_or_above(source, new_dir)? {
            return Err(Errno::EINVAL);
        }
        if let Some(target) = target
            && self.is_at_or_above(target, old_dir)?
        {
            return Err(if flags.exchange {
                Errno::EINVAL
            } else {
                Errno::ENOTEMPTY
            });
        }
        Ok(())
    }

    fn check_rename(
        &self,
        source: Ino,
        target: Option<Ino>,
        old_dir: Ino,
        new: Place<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let source_is_dir = self.inode(source)?.is_dir();
        self.check_delete(old_dir, source, source_is_dir)?;
        let mut target_is_dir = false;
        match target {
            None => self.check_create(new.0, new.1)?,
            Some(target) => {
                target_is_dir = self.inode(target)?.is_dir();
                let as_dir = if flags.exchange { target_is_dir } else { source_is_dir };
                self.check_delete(new.0, target, as_dir)?;
            }
        }
        if old_dir == new.0 {
            return Ok(());
        }
        let gains = |dir, gained: bool, lost: bool| -> Result<()> {
            let is_full = self.inode(dir)?.nlink >= LINK_MAX;
            if gained && !lost && is_full {
                Err(Errno::EMLINK)
            } else {
                Ok(())
            }
        };
        gains(new.0, source_is_dir, target_is_dir)?;
        gains(old_dir, flags.exchange && target_is_dir, source_is_dir)
    }

    fn replace(
        &mut self,
        old: Place<'_>,
        source: Ino,
        new: Place<'_>,
        target: Option<Ino>,
        flags: RenameFlags,
        now: Time,
    ) -> Result<()> {
        if let Some(target) = target {
            let inode = self.inode(target)?;
            if inode.is_dir() && !inode.dir()?.entries.is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            // The name itself stays, so that its cookie does: only the count of subdirectories changes.
            if inode.is_dir() {
                self.inode_mut(new.0)?.nlink -= 1;
            }
        }
        self.remove_name(old.0, old.1, now)?;
        self.add_name(new.0, new.1, source, now)?;
        self.inode_mut(source)?.ctime = now;
        if let Some(target) = target {
            self.drop_link(target, now)?;
        }
        if let Some(owner) = flags.whiteout {
            self.leave_whiteout(old, owner, now)?;
        }
        Ok(())
    }

    fn leave_whiteout(&mut self, at: Place<'_>, owner: Owner, now: Time) -> Result<()> {
        let new = NewInode::of(owner, FileKind::Char.type_bits());
        let whiteout = self.mknod(at.0, at.1, &new, now)?;
        self.forget(whiteout.attr.ino, 1);
        Ok(())
    }

    fn exchange(&mut self, old: Place<'_>, source: Ino, new: Place<'_>, target: Ino, now: Time) -> Result<()> {
        for (dir, name, leaves, comes) in [(old.0, old.1, source, target), (new.0, new.1, target, source)] {
            if self.inode(leaves)?.is_dir() {
                self.inode_mut(dir)?.nlink -= 1;
            }
            self.add_name(dir, name, comes, now)?;
            self.inode_mut(comes)?.ctime = now;
        }
        Ok(())
    }
}
