//! POSIX access control lists: the binary form of Linux's xattrs (version 2) and the rules of acl(5).
//!
//! Engine and oracle both go by them; ext4 keeps them honest (`testkit/tests/ext4.rs`).

use crate::{Errno, Result};

const VERSION: u32 = 2;
/// Tag: the owner.
pub const USER_OBJ: u16 = 0x01;
/// Tag: a named user.
pub const USER: u16 = 0x02;
/// Tag: the owning group.
pub const GROUP_OBJ: u16 = 0x04;
/// Tag: a named group.
pub const GROUP: u16 = 0x08;
/// Tag: the most that named users and all groups get.
pub const MASK: u16 = 0x10;
/// Tag: everybody else.
pub const OTHER: u16 = 0x20;
/// The id of entries that name nobody.
pub const NOBODY: u32 = u32::MAX;

/// One entry of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// Whom it is for: [`USER_OBJ`] to [`OTHER`].
    pub tag: u16,
    /// rwx bits.
    pub perm: u16,
    /// The user or group it names, or [`NOBODY`].
    pub id: u32,
}

/// A list: user, named users, group, named groups, mask, other, in this order if it is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl(Vec<AclEntry>);

impl Acl {
    /// A list of these entries, which are not judged.
    pub fn new(entries: Vec<AclEntry>) -> Acl {
        Acl(entries)
    }

    /// Reads the value of an ACL xattr; a list without entries is `None` (it removes the ACL). Whether the entries
    /// make a list is [`Acl::is_valid`]'s to say: Linux asks it later. Errors: `EINVAL`, and `EOPNOTSUPP` for another version.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>> {
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

    /// The value of the ACL xattr.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend_from_slice(&entry.tag.to_le_bytes());
            bytes.extend_from_slice(&entry.perm.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// Permission bits that the list stands for: what `ls` shows.
    pub fn mode_bits(&self) -> u32 {
        let bits = |tag| self.find(tag).map_or(0, |e| u32::from(e.perm));
        bits(USER_OBJ) << 6 | bits(self.group_class()) << 3 | bits(OTHER)
    }

    /// Whether the list says no more than permission bits can.
    pub fn is_minimal(&self) -> bool {
        self.0.iter().all(|e| matches!(e.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// chmod: owner, mask (or group) and other take the bits of `mode`.
    pub fn chmod(&mut self, mode: u32) {
        self.update_classes(|_, bits| bits, mode);
    }

    /// Inheritance of a default ACL: owner, mask (or group) and other lose what the creator's `mode` lacks.
    pub fn restrict(&mut self, mode: u32) {
        self.update_classes(|old, bits| old & bits, mode);
    }

    fn update_classes(&mut self, rule: impl Fn(u16, u16) -> u16, mode: u32) {
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

    /// The tag of the entry that the group bits of a mode stand for.
    fn group_class(&self) -> u16 {
        self.find(MASK).map_or(GROUP_OBJ, |mask| mask.tag)
    }

    fn find(&self, tag: u16) -> Option<&AclEntry> {
        self.0.iter().find(|e| e.tag == tag)
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
        let tag_known = matches!(self.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER);
        let names_somebody = !matches!(self.tag, USER | GROUP) || self.id != NOBODY;
        tag_known && names_somebody
    }
}

#[cfg(test)]
mod tests;
