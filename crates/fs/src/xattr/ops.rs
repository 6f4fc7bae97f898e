//! The operations on extended attributes. The order of checks is Linux's (`fs/xattr.c`).

use super::list::{self, NS_ACL_ACCESS, NS_ACL_DEFAULT};
use super::{load, store};
use crate::acl::Acl;
use crate::errors::{Result, Step, refuse};
use crate::inode::{Held, is_fixed, kind};
use crate::volume::Volume;
use keepfs_format::inode::Inode;
use keepfs_format::xattr::NAMESPACES;
use keepfs_store::Txn;
use keepfs_vfs::{Errno, FileKind, S_ISGID, XattrHow};

/// Longest name, prefix included.
const NAME_MAX: usize = 255;
/// Longest value that is looked at.
const VALUE_MAX: usize = 64 << 10;
/// Namespace number of `user.`.
const NS_USER: u8 = 0;

/// Namespace and rest of a name. Errors: `ERANGE`, `EINVAL` for a bare prefix, `EOPNOTSUPP` for an unknown namespace.
fn split(name: &[u8]) -> core::result::Result<(u8, &[u8]), Errno> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(Errno::ERANGE);
    }
    for (number, prefix) in NAMESPACES.iter().enumerate() {
        let is_acl = number as u8 >= NS_ACL_ACCESS;
        match name.strip_prefix(prefix.as_bytes()) {
            Some([]) if is_acl => return Ok((number as u8, &[])),
            Some([]) => return Err(Errno::EINVAL),
            Some(rest) if !is_acl => return Ok((number as u8, rest)),
            _ => {}
        }
    }
    Err(Errno::EOPNOTSUPP)
}

fn is_acl(namespace: u8) -> bool {
    namespace >= NS_ACL_ACCESS
}

/// Errors: `EPERM`, `EOPNOTSUPP` by kind and flags.
fn check_change(inode: &Inode, namespace: u8) -> Step<()> {
    if is_fixed(inode) {
        return refuse(Errno::EPERM);
    }
    match kind(inode) {
        FileKind::File | FileKind::Dir => Ok(()),
        _ if namespace == NS_USER => refuse(Errno::EPERM),
        FileKind::Symlink if is_acl(namespace) => refuse(Errno::EOPNOTSUPP),
        _ => Ok(()),
    }
}

impl Volume {
    /// A value. Errors: `ENODATA`, `ERANGE`, `EOPNOTSUPP`.
    pub(crate) fn do_getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        let _lock = self.locks.shared(ino);
        self.see(|view| {
            let inode = self.usable(view, ino)?;
            let (namespace, rest) = split(name).or_else(refuse)?;
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
    pub(crate) fn do_setxattr(&self, ino: u64, name: &[u8], value: &[u8], how: XattrHow) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        self.change(|txn| {
            self.usable(txn, ino)?;
            let (namespace, rest) = split(name).or_else(refuse)?;
            if value.len() > VALUE_MAX {
                return refuse(Errno::E2BIG);
            }
            let mut held = Held::load(txn, ino)?;
            if is_acl(namespace) {
                set_acl(txn, &mut held, namespace, value, how)?;
            } else {
                check_change(&held.now, namespace)?;
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
            held.changed(now);
            held.put(txn)
        })
    }

    /// Removes a value. Errors: `ENODATA`, `EPERM`, `EOPNOTSUPP`.
    pub(crate) fn do_removexattr(&self, ino: u64, name: &[u8]) -> Result<()> {
        let _lock = self.locks.exclusive(ino);
        let now = self.now();
        self.change(|txn| {
            self.usable(txn, ino)?;
            let (namespace, rest) = split(name).or_else(refuse)?;
            let mut held = Held::load(txn, ino)?;
            check_change(&held.now, namespace)?;
            let mut packed = load(txn, ino, &held.now)?;
            if !list::remove(&mut packed, namespace, rest) {
                return refuse(Errno::ENODATA);
            }
            store(txn, &mut held, &packed)?;
            held.changed(now);
            held.put(txn)
        })
    }
}

/// Adds an attribute and stores the list. Errors: `ENOSPC`.
fn add(txn: &mut Txn<'_>, held: &mut Held, packed: &mut Vec<u8>, namespace: u8, name: &[u8], value: &[u8]) -> Step<()> {
    // 64 KiB exactly would not fit the length field; the sum of all is refused far below.
    if !list::put(packed, namespace, name, value) {
        return refuse(Errno::ENOSPC);
    }
    store(txn, held, packed)
}

/// Sets or removes an ACL; an access ACL rules the permission bits, and is not kept if they say it all.
fn set_acl(txn: &mut Txn<'_>, held: &mut Held, namespace: u8, value: &[u8], how: XattrHow) -> Step<()> {
    let acl = Acl::parse(value).or_else(refuse)?;
    check_change(&held.now, namespace)?;
    let mut packed = load(txn, held.ino, &held.now)?;
    if acl.is_some() && !list::put(&mut packed.clone(), namespace, &[], value) {
        return refuse(Errno::ENOSPC);
    }
    if namespace == NS_ACL_DEFAULT && acl.is_some() && held.kind() != FileKind::Dir {
        return refuse(Errno::EACCES);
    }
    let mut kept = acl;
    if namespace == NS_ACL_ACCESS
        && let Some(acl) = &kept
    {
        let mode = held.now.mode.get() & !0o777 | acl.mode_bits();
        held.now.mode.set(if how.kill_sgid { mode & !S_ISGID } else { mode });
        if acl.is_minimal() {
            kept = None;
        }
    }
    match kept {
        Some(acl) => add(txn, held, &mut packed, namespace, &[], &acl.to_bytes()),
        None => {
            list::remove(&mut packed, namespace, &[]);
            store(txn, held, &packed)
        }
    }
}
