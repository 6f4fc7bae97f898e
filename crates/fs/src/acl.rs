//! POSIX access control lists of inodes: where they are kept, and when the rules of acl(5) are asked.

use crate::errors::{Step, refuse};
use crate::inode::{Held, tell_mode};
use crate::xattr::{self, NS_ACL_ACCESS, NS_ACL_DEFAULT};
use keepfs_format::inode::Inode;

use keepfs_store::Txn;
use keepfs_vfs::acl::Acl;
use keepfs_vfs::{Errno, FileKind};

/// The stored ACL in a list of attributes. Damage if it is none.
fn stored(ino: u64, packed: &[u8], namespace: u8) -> Step<Option<Acl>> {
    match xattr::find(packed, namespace, &[]).map(Acl::parse) {
        None => Ok(None),
        Some(Ok(acl)) => Ok(acl),
        Some(Err(_)) => Err(crate::errors::damaged(ino, "a stored ACL is none (acl(5))")),
    }
}

/// chmod of the access ACL, if there is one.
pub(crate) fn chmod(txn: &mut Txn<'_>, held: &mut Held, mode: u32) -> Step<()> {
    if held.now.xattr.get() == 0 {
        return Ok(());
    }
    let mut packed = xattr::load(txn, held.ino, &held.now)?;
    if let Some(mut acl) = stored(held.ino, &packed, NS_ACL_ACCESS)? {
        acl.chmod(mode);
        if !xattr::put(&mut packed, NS_ACL_ACCESS, &[], &acl.to_bytes()) {
            return refuse(Errno::ENOSPC);
        }
        xattr::tell_set(txn, held, &packed, NS_ACL_ACCESS, &[])?;
        xattr::store(txn, held, &packed)?;
    }
    Ok(())
}

/// What a new inode takes from its parent: the default ACL, or the umask (`posix_acl_create` of Linux).
pub(crate) fn inherit(txn: &mut Txn<'_>, parent: (u64, &Inode), child: &mut Held, umask: u32) -> Step<()> {
    if child.kind() == FileKind::Symlink {
        return Ok(());
    }
    let (ino, inode) = parent;
    let default = if inode.xattr.get() == 0 {
        None
    } else {
        stored(ino, &xattr::load(txn, ino, inode)?, NS_ACL_DEFAULT)?
    };
    let mode = child.now.mode.get();
    let Some(default) = default else {
        child.now.mode.set(mode & !(umask & 0o777));
        return tell_mode(txn, child);
    };
    let mut access = default.clone();
    access.restrict(mode);
    child.now.mode.set(mode & !0o777 | access.mode_bits());
    tell_mode(txn, child)?;
    let mut packed = Vec::new();
    if !access.is_minimal() {
        xattr::put(&mut packed, NS_ACL_ACCESS, &[], &access.to_bytes());
        xattr::tell_set(txn, child, &packed, NS_ACL_ACCESS, &[])?;
    }
    if child.kind() == FileKind::Dir {
        xattr::put(&mut packed, NS_ACL_DEFAULT, &[], &default.to_bytes());
        xattr::tell_set(txn, child, &packed, NS_ACL_DEFAULT, &[])?;
    }
    if packed.is_empty() {
        Ok(())
    } else {
        xattr::store(txn, child, &packed)
    }
}
