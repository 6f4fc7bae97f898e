//! Extended attributes, and the two that are ACLs. The order of checks is that of `fs/xattr.c` of Linux.

use super::inode::Inode;
use super::state::State;
use keepfs_vfs::acl::Acl;
use keepfs_vfs::{Errno, FileKind, Ino, Result, S_ISGID, Time, XattrHow};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Longest name, prefix included, bytes.
const XATTR_NAME_MAX: usize = 255;

/// What a name asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    AccessAcl,
    DefaultAcl,
    User,
    /// `trusted.` and `security.`: stored as they are.
    Plain,
}

/// Errors: `ERANGE` for no name or one too long.
fn check_length(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        Err(Errno::ERANGE)
    } else {
        Ok(())
    }
}

/// Errors: `EOPNOTSUPP` for an unknown namespace, `EINVAL` for one that is only a prefix.
fn family(name: &[u8]) -> Result<Family> {
    match name {
        ACCESS => return Ok(Family::AccessAcl),
        DEFAULT => return Ok(Family::DefaultAcl),
        _ => (),
    }
    let known = [
        (&b"user."[..], Family::User),
        (b"trusted.", Family::Plain),
        (b"security.", Family::Plain),
    ];
    for (prefix, family) in known {
        match name.strip_prefix(prefix) {
            Some([]) => return Err(Errno::EINVAL),
            Some(_) => return Ok(family),
            None => (),
        }
    }
    Err(Errno::EOPNOTSUPP)
}

impl Inode {
    /// Names of all attributes, in byte order.
    pub(super) fn xattr_names(&self) -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = self.xattrs.keys().cloned().collect();
        names.extend(self.access_acl.as_ref().map(|_| ACCESS.to_vec()));
        names.extend(self.default_acl.as_ref().map(|_| DEFAULT.to_vec()));
        names.sort();
        names
    }

    fn xattr(&self, name: &[u8], family: Family) -> Option<Vec<u8>> {
        match family {
            Family::AccessAcl => self.access_acl.as_ref().map(Acl::to_bytes),
            Family::DefaultAcl => self.default_acl.as_ref().map(Acl::to_bytes),
            _ => self.xattrs.get(name).cloned(),
        }
    }

    /// Whether `user.` attributes can be there: only files and directories have them.
    fn takes_user_xattrs(&self) -> bool {
        matches!(self.kind(), FileKind::File | FileKind::Dir)
    }

    /// What `name` asks for, if it may be changed. Errors: `EPERM` by the flags, and for `user.` by the kind of the
    /// inode, before those of [`family`]; `EOPNOTSUPP` for an ACL of a symbolic link.
    fn check_xattr_change(&self, name: &[u8]) -> Result<Family> {
        self.check_changeable()?;
        if name.starts_with(b"user.") && !self.takes_user_xattrs() {
            return Err(Errno::EPERM);
        }
        match family(name)? {
            Family::AccessAcl | Family::DefaultAcl if self.kind() == FileKind::Symlink => Err(Errno::EOPNOTSUPP),
            family => Ok(family),
        }
    }

    /// Errors: `ENOSPC` if `name` with `len` bytes would make the attributes longer than `total_max`.
    fn check_xattr_room(&self, name: &[u8], len: usize, total_max: usize) -> Result<()> {
        let others = self.xattr_names().into_iter().filter(|other| other != name);
        let length = |other: Vec<u8>| {
            let value = family(&other).ok().and_then(|family| self.xattr(&other, family));
            other.len() + value.map_or(0, |v| v.len())
        };
        let total = others.map(length).sum::<usize>() + name.len() + len;
        if total > total_max { Err(Errno::ENOSPC) } else { Ok(()) }
    }
}

impl State {
    pub(super) fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let inode = self.inode(ino)?;
        check_length(name)?;
        if name.starts_with(b"user.") && !inode.takes_user_xattrs() {
            return Err(Errno::ENODATA);
        }
        let family = family(name)?;
        if matches!(family, Family::AccessAcl | Family::DefaultAcl) && inode.kind() == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        inode.xattr(name, family).ok_or(Errno::ENODATA)
    }

    pub(super) fn setxattr(&mut self, ino: Ino, name: &[u8], value: &[u8], how: XattrHow, now: Time) -> Result<()> {
        let options = self.options;
        let inode = self.inode_mut(ino)?;
        check_length(name)?;
        if value.len() > options.xattr_value_max {
            return Err(Errno::E2BIG);
        }
        if matches!(name, ACCESS | DEFAULT) {
            let acl = Acl::parse(value)?;
            let family = inode.check_xattr_change(name)?;
            match &acl {
                None if inode.xattr(name, family).is_none() => return Ok(()),
                None => (),
                Some(_) if family == Family::DefaultAcl && !inode.is_dir() => return Err(Errno::EACCES),
                Some(acl) if !acl.is_valid() => return Err(Errno::EINVAL),
                Some(_) => inode.check_xattr_room(name, value.len(), options.xattr_total_max)?,
            }
            inode.set_acl(family, acl, how);
        } else {
            inode.check_xattr_change(name)?;
            let exists = inode.xattrs.contains_key(name);
            if how.create && exists {
                return Err(Errno::EEXIST);
            }
            if how.replace && !exists {
                return Err(Errno::ENODATA);
            }
            inode.check_xattr_room(name, value.len(), options.xattr_total_max)?;
            inode.xattrs.insert(name.to_vec(), value.to_vec());
        }
        inode.ctime = now;
        Ok(())
    }

    pub(super) fn removexattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        check_length(name)?;
        let family = inode.check_xattr_change(name)?;
        let removed = match family {
            Family::AccessAcl => inode.access_acl.take().is_some(),
            Family::DefaultAcl => inode.default_acl.take().is_some(),
            _ => inode.xattrs.remove(name).is_some(),
        };
        match removed {
            true => inode.ctime = now,
            false if matches!(family, Family::AccessAcl | Family::DefaultAcl) => (),
            false => return Err(Errno::ENODATA),
        }
        Ok(())
    }
}

impl Inode {
    /// Sets or removes an ACL; an access ACL rules the permission bits, and is not kept if they say it all.
    fn set_acl(&mut self, family: Family, acl: Option<Acl>, how: XattrHow) {
        if family == Family::DefaultAcl {
            self.default_acl = acl;
            return;
        }
        if let Some(acl) = &acl {
            self.mode = self.mode & !0o777 | acl.mode_bits();
            if how.kill_sgid {
                self.mode &= !S_ISGID;
            }
        }
        self.access_acl = acl.filter(|acl| !acl.is_minimal());
    }
}
