//! POSIX access control lists: the binary form of Linux's xattrs (version 2) and the rules of acl(5).

use keepfs_vfs::{Errno, Result};

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
/// The id of entries that name nobody.
const NOBODY: u32 = u32::MAX;

/// One entry: a tag, the user or group it names (or [`NOBODY`]), and rwx bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct AclEntry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A valid list: user, named users, group, named groups, mask, other, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Acl(Vec<AclEntry>);

impl Acl {
    /// Reads the value of an ACL xattr; a list without entries is `None` (it removes the ACL). Whether the entries
    /// make a list is [`Acl::is_valid`]'s to say: Linux asks it later. Errors: `EINVAL`, and `EOPNOTSUPP` for another version.
    pub(super) fn parse(value: &[u8]) -> Result<Option<Acl>> {
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
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend_from_slice(&entry.tag.to_le_bytes());
            bytes.extend_from_slice(&entry.perm.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// Permission bits that the list stands for: what `ls` shows.
    pub(super) fn mode_bits(&self) -> u32 {
        let bits = |tag| self.find(tag).map_or(0, |e| u32::from(e.perm));
        let group = if self.find(MASK).is_some() {
            bits(MASK)
        } else {
            bits(GROUP_OBJ)
        };
        bits(USER_OBJ) << 6 | group << 3 | bits(OTHER)
    }

    /// Whether the list says no more than permission bits can.
    pub(super) fn is_minimal(&self) -> bool {
        self.0.iter().all(|e| matches!(e.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// chmod: owner, mask (or group) and other take the bits of `mode`.
    pub(super) fn chmod(&mut self, mode: u32) {
        self.update_classes(|_, bits| bits, mode);
    }

    /// Inheritance of a default ACL: owner, mask (or group) and other lose what the creator's `mode` lacks.
    pub(super) fn restrict(&mut self, mode: u32) {
        self.update_classes(|old, bits| old & bits, mode);
    }

    fn update_classes(&mut self, rule: impl Fn(u16, u16) -> u16, mode: u32) {
        let group_tag = if self.find(MASK).is_some() { MASK } else { GROUP_OBJ };
        for entry in &mut self.0 {
            let shift = match entry.tag {
                USER_OBJ => 6,
                OTHER => 0,
                tag if tag == group_tag => 3,
                _ => continue,
            };
            entry.perm = rule(entry.perm, (mode >> shift & 7) as u16);
        }
    }

    fn find(&self, tag: u16) -> Option<&AclEntry> {
        self.0.iter().find(|e| e.tag == tag)
    }

    /// The order and number of entries that acl(5) demands.
    pub(super) fn is_valid(&self) -> bool {
        let count = |tag| self.0.iter().filter(|e| e.tag == tag).count();
        let named = count(USER) + count(GROUP);
        self.0.is_sorted_by_key(|e| e.tag)
            && self.0.iter().all(|e| e.perm <= 7)
            && count(USER_OBJ) == 1
            && count(GROUP_OBJ) == 1
            && count(OTHER) == 1
            && (count(MASK) == 1 || count(MASK) == 0 && named == 0)
    }
}

/// The extended attribute that holds the ACL of an inode, or the default ACL of a directory.
pub fn acl_name(default: bool) -> &'static str {
    match default {
        true => "system.posix_acl_default",
        false => "system.posix_acl_access",
    }
}

/// The xattr value for the short text form `u::7,u:1000:6,g::5,m::7,o::4` (ids and permission bits in decimal).
/// The list is not judged, so that wrong ones can be made too. `None` if the text is no list.
pub fn acl_xattr(text: &str) -> Option<Vec<u8>> {
    let words = text.split(',').filter(|w| !w.is_empty());
    let entries: Option<Vec<AclEntry>> = words.map(AclEntry::parse_text).collect();
    Some(Acl(entries?).to_bytes())
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

    fn parse_text(word: &str) -> Option<AclEntry> {
        let mut parts = word.split(':');
        let (kind, id, perm) = (parts.next()?, parts.next()?, parts.next()?);
        let tag = match (kind, id.is_empty()) {
            ("u", true) => USER_OBJ,
            ("u", false) => USER,
            ("g", true) => GROUP_OBJ,
            ("g", false) => GROUP,
            ("m", true) => MASK,
            ("o", true) => OTHER,
            _ => return None,
        };
        let id = if id.is_empty() { NOBODY } else { id.parse().ok()? };
        Some(AclEntry {
            tag,
            perm: perm.parse().ok()?,
            id,
        })
    }

    /// Whether the tag is one, and names somebody if it shall.
    fn is_known(&self) -> bool {
        let tag_known = matches!(self.tag, USER_OBJ | USER | GROUP_OBJ | GROUP | MASK | OTHER);
        let names_somebody = !matches!(self.tag, USER | GROUP) || self.id != NOBODY;
        tag_known && names_somebody
    }
}
