//! The operations on extended attributes. The order of checks is Linux's (`fs/xattr.c`).

use super::list::{self, NS_ACL_ACCESS, NS_ACL_DEFAULT};
use super::{load, store, tell_removed, tell_set};
use crate::Volume;
use crate::errors::{Result, Step, refuse};
use crate::inode::{Held, is_fixed, kind, moment, tell_mode};
use crate::once::For;
use keepfs_format::inode::Inode;
use keepfs_format::oplog::{Action, Attrs, attr};
use keepfs_format::xattr::NAMESPACES;
use keepfs_store::Txn;
use keepfs_vfs::acl::Acl;
use keepfs_vfs::{Errno, FileKind, S_ISGID, Time, XattrHow};

/// Longest name, prefix included.
const NAME_MAX: usize = 255;
/// Longest value that is looked at.
const VALUE_MAX: usize = 64 << 10;

/// Errors: `ERANGE` for no name or one too long.
fn check_length(name: &[u8]) -> Step<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        return refuse(Errno::ERANGE);
    }
    Ok(())
}

/// Namespace and rest of a name. Errors: `EINVAL` for a bare prefix, `EOPNOTSUPP` for an unknown namespace.
fn split(name: &[u8]) -> Step<(u8, &[u8])> {
    for (number, prefix) in NAMESPACES.iter().enumerate() {
        let is_acl = is_acl(number as u8);
        match name.strip_prefix(prefix.as_bytes()) {
            Some([]) if is_acl => return Ok((number as u8, &[])),
            Some([]) => return refuse(Errno::EINVAL),
            Some(rest) if !is_acl => return Ok((number as u8, rest)),
            _ => {}
        }
    }
    refuse(Errno::EOPNOTSUPP)
}

/// Whether the name is of the namespace that only files and directories have, and the inode is neither.
fn is_misplaced(inode: &Inode, name: &[u8]) -> bool {
    name.starts_with(b"user.") && !matches!(kind(inode), FileKind::File | FileKind::Dir)
}

fn is_acl(namespace: u8) -> bool {
    namespace >= NS_ACL_ACCESS
}

/// Namespace and rest of a name that may be changed. Errors: `EPERM` by flags and kind before those of [`split`];
/// `EOPNOTSUPP` for an ACL of a symbolic link.
fn check_change<'n>(inode: &Inode, name: &'n [u8]) -> Step<(u8, &'n [u8])> {
    if is_fixed(inode) || is_misplaced(inode, name) {
        return refuse(Errno::EPERM);
    }
    match split(name)? {
        (namespace, _) if is_acl(namespace) && kind(inode) == FileKind::Symlink => refuse(Errno::EOPNOTSUPP),
        found => Ok(found),
    }
}

impl Volume {
    /// A value. Errors: `ENODATA`, `ERANGE`, `EOPNOTSUPP`.
    pub(crate) fn do_getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        let _lock = self.locks.shared(ino);
        self.see(|view| {
            let inode = self.usable(view, ino)?;
            check_length(name)?;
            if is_misplaced(&inode, name) {
                return refuse(Errno::ENODATA);
            }
            let (namespace, rest) = split(name)?;
            if is_acl(namespace) && kind(&inode) == FileKind::Symlink {
                return refuse(Errno::EOPNOTSUPP);
            }
            let packed = load(view, ino, &inode)?;
            match list::find(&packed, namespace, rest) {
                Some(value) => Ok(value.to_vec()),
                None => refuse(Errno::ENODATA),
            }
        })
    }

    /// All names.
    pub(crate) fn do_listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>> {
        let _lock = self.locks.shared(ino);
        self.see(|view| {
            let inode = self.usable(view, ino)?;
            let packed = load(view, ino, &inode)?;
            Ok(list::attrs(&packed).map(|attr| attr.full_name()).collect())
        })
    }

    /// Sets a value. Errors: `EEXIST`, `ENODATA`, `ENOSPC`, `E2BIG`, `EPERM`, `EOPNOTSUPP`, `EINVAL`, `EACCES`.
    pub(crate) fn do_setxattr(&self, by: For, ino: u64, name: &[u8], value: &[u8], how: XattrHow) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        self.change_once(by, |txn| {
            let mut held = self.hold(txn, ino)?;
            check_length(name)?;
            if value.len() > VALUE_MAX {
                return refuse(Errno::E2BIG);
            }
            if NAMESPACES
                .iter()
                .skip(usize::from(NS_ACL_ACCESS))
                .any(|acl| acl.as_bytes() == name)
            {
                if !set_acl(txn, &mut held, name, value, how)? {
                    return Ok((0, ()));
                }
            } else {
                let (namespace, rest) = check_change(&held.now, name)?;
                let mut packed = load(txn, ino, &held.now)?;
                let exists = list::find(&packed, namespace, rest).is_some();
                if how.create && exists {
                    return refuse(Errno::EEXIST);
                }
                if how.replace && !exists {
                    return refuse(Errno::ENODATA);
                }
                add(txn, &mut held, &mut packed, namespace, rest, value)?;
            }
            tell_changed(txn, ino, now)?;
            held.changed(now);
            held.put(txn)?;
            Ok((0, ()))
        })?;
        Ok(())
    }

    /// Removes a value; an ACL that is not there is removed. Errors: `ENODATA`, `EPERM`, `EOPNOTSUPP`.
    pub(crate) fn do_removexattr(&self, by: For, ino: u64, name: &[u8]) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        self.change_once(by, |txn| {
            let mut held = self.hold(txn, ino)?;
            check_length(name)?;
            let (namespace, rest) = check_change(&held.now, name)?;
            let mut packed = load(txn, ino, &held.now)?;
            if !list::remove(&mut packed, namespace, rest) {
                if is_acl(namespace) {
                    return Ok((0, ()));
                }
                return refuse(Errno::ENODATA);
            }
            tell_removed(txn, &held, &packed, namespace, rest)?;
            store(txn, &mut held, &packed)?;
            tell_changed(txn, ino, now)?;
            held.changed(now);
            held.put(txn)?;
            Ok((0, ()))
        })?;
        Ok(())
    }
}

/// Adds an attribute and stores the list. Errors: `ENOSPC`.
fn add(txn: &mut Txn<'_>, held: &mut Held, packed: &mut Vec<u8>, namespace: u8, name: &[u8], value: &[u8]) -> Step<()> {
    // 64 KiB exactly would not fit the length field; the sum of all is refused far below.
    if !list::put(packed, namespace, name, value) {
        return refuse(Errno::ENOSPC);
    }
    tell_set(txn, held, packed, namespace, name)?;
    store(txn, held, packed)
}

/// Tells the operation log of a new change time.
fn tell_changed(txn: &mut Txn<'_>, ino: u64, now: Time) -> Step<()> {
    let attrs = Attrs {
        set: attr::CTIME,
        ctime: moment(now),
        ..Attrs::default()
    };
    Ok(txn.op(ino, Action::SetAttr { attrs })?)
}

/// Sets or removes an ACL; an access ACL rules the permission bits, and is not kept if they say it all.
/// `false` if there was nothing to remove.
fn set_acl(txn: &mut Txn<'_>, held: &mut Held, name: &[u8], value: &[u8], how: XattrHow) -> Step<bool> {
    let acl = Acl::parse(value).or_else(refuse)?;
    let (namespace, _) = check_change(&held.now, name)?;
    let mut packed = load(txn, held.ino, &held.now)?;
    match &acl {
        None if list::find(&packed, namespace, &[]).is_none() => return Ok(false),
        None => {}
        Some(_) if namespace == NS_ACL_DEFAULT && held.kind() != FileKind::Dir => return refuse(Errno::EACCES),
        Some(acl) if !acl.is_valid() => return refuse(Errno::EINVAL),
        Some(_) if !list::put(&mut packed.clone(), namespace, &[], value) => return refuse(Errno::ENOSPC),
        Some(_) => {}
    }
    let mut kept = acl;
    if namespace == NS_ACL_ACCESS
        && let Some(acl) = &kept
    {
        let mode = held.now.mode.get() & !0o777 | acl.mode_bits();
        held.now.mode.set(if how.kill_sgid { mode & !S_ISGID } else { mode });
        tell_mode(txn, held)?;
        if acl.is_minimal() {
            kept = None;
        }
    }
    match kept {
        Some(acl) => add(txn, held, &mut packed, namespace, &[], &acl.to_bytes())?,
        None => {
            list::remove(&mut packed, namespace, &[]);
            tell_removed(txn, held, &packed, namespace, &[])?;
            store(txn, held, &packed)?;
        }
    }
    Ok(true)
}
