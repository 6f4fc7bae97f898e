//! The packed list of attributes as bytes: finding, adding, removing (S-7.4).

use keepfs_format::xattr::{AttrHead, NAMESPACES, TOTAL_MAX};
use keepfs_format::{FromBytes, IntoBytes};

/// Namespace number of `security.`.
pub(crate) const NS_SECURITY: u8 = 2;
/// Namespace number of the access ACL; its name is empty.
pub(crate) const NS_ACL_ACCESS: u8 = 3;
/// Namespace number of the default ACL; its name is empty.
pub(crate) const NS_ACL_DEFAULT: u8 = 4;
/// Bytes of an attribute's head.
const HEAD: usize = size_of::<AttrHead>();

/// One attribute in the list.
#[derive(Clone, Copy)]
pub(super) struct Attr<'a> {
    at: usize,
    len: usize,
    pub namespace: u8,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl Attr<'_> {
    /// The name as callers see it.
    pub fn full_name(&self) -> Vec<u8> {
        let prefix = NAMESPACES.get(usize::from(self.namespace)).copied().unwrap_or_default();
        [prefix.as_bytes(), self.name].concat()
    }
}

/// The attributes of a sound list, in order; ends where one does not fit.
pub(super) fn attrs(packed: &[u8]) -> impl Iterator<Item = Attr<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let attr = attr_at(packed, at)?;
        at += attr.len;
        Some(attr)
    })
}

fn attr_at(packed: &[u8], at: usize) -> Option<Attr<'_>> {
    let head = AttrHead::read_from_bytes(packed.get(at..at + HEAD)?).ok()?;
    let name_end = at + HEAD + usize::from(head.name_len);
    let end = name_end + usize::from(head.value_len.get());
    let (name, value) = (packed.get(at + HEAD..name_end)?, packed.get(name_end..end)?);
    Some(Attr {
        at,
        len: end - at,
        namespace: head.namespace,
        name,
        value,
    })
}

/// Whether the bytes are a list to their end, of known namespaces.
pub(super) fn is_sound(packed: &[u8]) -> bool {
    let end = attrs(packed).last().map_or(0, |last| last.at + last.len);
    end == packed.len() && attrs(packed).all(|attr| usize::from(attr.namespace) < NAMESPACES.len())
}

fn get<'a>(packed: &'a [u8], namespace: u8, name: &[u8]) -> Option<Attr<'a>> {
    attrs(packed).find(|attr| attr.namespace == namespace && attr.name == name)
}

/// The value of an attribute.
pub(crate) fn find<'a>(packed: &'a [u8], namespace: u8, name: &[u8]) -> Option<&'a [u8]> {
    get(packed, namespace, name).map(|attr| attr.value)
}

/// Removes an attribute; `false` if there was none.
pub(crate) fn remove(packed: &mut Vec<u8>, namespace: u8, name: &[u8]) -> bool {
    let Some((at, len)) = get(packed, namespace, name).map(|attr| (attr.at, attr.len)) else {
        return false;
    };
    packed.drain(at..at + len);
    true
}

/// Sets an attribute; `false` if names and values would be more than an inode can hold. Lengths were checked.
pub(crate) fn put(packed: &mut Vec<u8>, namespace: u8, name: &[u8], value: &[u8]) -> bool {
    let others = attrs(packed).filter(|attr| attr.namespace != namespace || attr.name != name);
    let used: usize = others.map(|attr| full_len(attr.namespace, attr.name, attr.value)).sum();
    if used + full_len(namespace, name, value) > TOTAL_MAX {
        return false;
    }
    let head = AttrHead {
        name_len: name.len() as u8,
        namespace,
        value_len: (value.len() as u16).into(),
    };
    let new = [head.as_bytes(), name, value].concat();
    match get(packed, namespace, name).map(|attr| (attr.at, attr.len)) {
        Some((at, len)) => {
            packed.splice(at..at + len, new);
        }
        None => packed.extend_from_slice(&new),
    }
    true
}

/// Bytes that an attribute counts: its full name and its value.
fn full_len(namespace: u8, name: &[u8], value: &[u8]) -> usize {
    let prefix = NAMESPACES.get(usize::from(namespace)).map_or(0, |prefix| prefix.len());
    prefix + name.len() + value.len()
}
