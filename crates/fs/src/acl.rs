//! POSIX access control lists: the binary form of Linux's xattrs (version 2) and the rules of acl(5).

use crate::errors::{Step, refuse};
use crate::inode::Held;
use crate::xattr::{self, NS_ACL_ACCESS, NS_ACL_DEFAULT};
use keepfs_format::inode::Inode;
use keepfs_format::oplog::{Action, Attrs, attr};
use keepfs_store::Txn;
use keepfs_vfs::{Errno, FileKind};

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// One entry: whom it is for, rwx bits, and the user or group it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AclEntry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A valid list: user, named users, group, named groups, mask, other, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acl(Vec<AclEntry>);

impl Acl {
    /// Reads the value of an ACL attribute; a list without entries is `None` (it removes the ACL).
    /// Whether the entries make a list is [`Acl::is_valid`]'s to say: Linux asks it later.
    /// Errors: `EINVAL`, and `EOPNOTSUPP` for another version.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>, Errno> {
        if value.is_empty() {
            return Ok(None);
        }
        let (version, body) = value.split_first_chunk::<4>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (entries, rest) = body.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Errno::EINVAL);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let acl = Acl(entries.iter().map(AclEntry::parse).collect());
        if acl.0.iter().all(AclEntry::is_known) {
            Ok(Some(acl))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// The value of the ACL attribute.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend_from_slice(&entry.tag.to_le_bytes());
            bytes.extend_from_slice(&entry.perm.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// The permission bits that stand for the list.
    pub fn mode_bits(&self) -> u32 {
        let bits = |tag| self.0.iter().find(|e| e.tag == tag).map_or(0, |e| u32::from(e.perm));
        bits(USER_OBJ) << 6 | bits(self.group_class()) << 3 | bits(OTHER)
    }

    /// Whether the list says no more than permission bits can.
    pub fn is_minimal(&self) -> bool {
        self.0.iter().all(|e| matches!(e.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// chmod: owner, mask (or group) and other take the bits of `mode`.
    fn chmod(&mut self, mode: u32) {
        self.each_class(mode, |_, bits| bits);
    }

    /// Inheritance: owner, mask (or group) and other lose what the creator's `mode` lacks.
    fn restrict(&mut self, mode: u32) {
        self.each_class(mode, |old, bits| old & bits);
    }

    /// The entry that the group bits of a mode stand for.
    fn group_class(&self) -> u16 {
        if self.0.iter().any(|e| e.tag == MASK) {
            MASK
        } else {
            GROUP_OBJ
        }
    }

    fn each_class(&mut self, mode: u32, rule: impl Fn(u16, u16) -> u16) {
        let group_class = self.group_class();
        for entry in &mut self.0 {
            let shift = match entry.tag {
                USER_OBJ => 6,
                OTHER => 0,
                tag if tag == group_class => 3,
                _ => continue,
            };
            entry.perm = rule(entry.perm, (mode >> shift & 7) as u16);
        }
    }

    /// The order and number of entries that acl(5) demands.
    pub fn is_valid(&self) -> bool {
        let count = |tag| self.0.iter().filter(|e| e.tag == tag).count();
        let named = count(USER) + count(GROUP);
        self.0.is_sorted_by_key(|e| e.tag)
            && self.0.iter().all(|e| e.perm <= 7)
            && [USER_OBJ, GROUP_OBJ, OTHER].into_iter().all(|tag| count(tag) == 1)
            && (count(MASK) == 1 || count(MASK) == 0 && named == 0)
    }
}

impl AclEntry {
    fn parse(bytes: &[u8; 8]) -> AclEntry {
        let [t0, t1, p0, p1, id @ ..] = *bytes;
        let tag = u16::from_le_bytes([t0, t1]);
        let id = if matches!(tag, USER | GROUP) {
            u32::from_le_bytes(id)
        } else {
            NOBODY
        };
        AclEntry {
            tag,
            perm: u16::from_le_bytes([p0, p1]),
            id,
        }
    }

    /// Whether the tag is one, and names somebody if it shall.
    fn is_known(&self) -> bool {
        let is_tag = matches!(self.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER);
        let names_somebody = !matches!(self.tag, USER | GROUP) || self.id != NOBODY;
        is_tag && names_somebody
    }
}

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

/// Tells the operation log of the permission bits that an ACL or the umask made.
pub(crate) fn tell_mode(txn: &mut Txn<'_>, held: &Held) -> Step<()> {
    let attrs = Attrs {
        set: attr::MODE,
        mode: held.now.mode.get(),
        ..Attrs::default()
    };
    Ok(txn.op(held.ino, Action::SetAttr { attrs })?)
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
