//! Lists of access rights in words: the short text form of operations.

use keepfs_vfs::acl::{Acl, AclEntry, GROUP, GROUP_OBJ, MASK, NOBODY, OTHER, USER, USER_OBJ};

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
    let entries: Option<Vec<AclEntry>> = words.map(entry).collect();
    Some(Acl::new(entries?).to_bytes())
}

/// One entry, of the form `u:1000:6`.
fn entry(word: &str) -> Option<AclEntry> {
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
