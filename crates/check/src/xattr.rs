//! Extended attributes: inline areas and chains (SPEC S-7.4).

use crate::finding::Finding;
use crate::node::follow;
use crate::walk::Walk;
use keepfs_format::inode::{Inode, XATTR_CHAIN};
use keepfs_format::metablock::HEADER;
use keepfs_format::xattr::{AttrHead, ChainHead, NAMESPACES, PAYLOAD, PAYLOAD_OFFSET, TOTAL_MAX};
use keepfs_format::{FromBytes, Kind, MetaId};
use std::collections::HashSet;

/// First namespace whose prefix is the whole name.
const WHOLE_NAMES: u8 = 3;

/// Checks the attributes of a live inode.
pub(crate) fn check(walk: &mut Walk<'_>, ino: u64, inode: &Inode) {
    if inode.xattr.get() != XATTR_CHAIN {
        if let Some(bytes) = inode.xattr_area.get(..inode.xattr.get().into()) {
            list(walk, ino, bytes);
        }
    } else if let Some(payload) = chain(walk, ino, inode.xattrs.get()) {
        list(walk, ino, &payload);
    }
}

/// The joined payload of a chain, if all of it could be read.
fn chain(walk: &mut Walk<'_>, ino: u64, first: u64) -> Option<Vec<u8>> {
    let (mut payload, mut next, mut position) = (Vec::new(), first, 0usize);
    while next != 0 {
        // A node is followed once only, so this ends.
        let (head, bytes) = follow(walk, next, ino, &[Kind::Xattr])?;
        let id = MetaId(next);
        let link = ChainHead::read_from_prefix(&bytes[HEADER..]).map_or(ChainHead::default(), |(link, _)| link);
        let used = usize::from(link.used.get());
        let rules = [
            (usize::from(head.level) == position.min(255), "level"),
            (used <= PAYLOAD, "used"),
            (link.reserved == [0; 6], "reserved field"),
        ];
        if let Some((_, field)) = rules.iter().find(|(holds, _)| !holds) {
            walk.finding(Finding::Node {
                id: id.into(),
                owner: ino,
                field,
            });
        }
        if payload.len() <= TOTAL_MAX {
            payload.extend_from_slice(&bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used.min(PAYLOAD)]);
        }
        (next, position) = (link.next.get(), position + 1);
        if used > PAYLOAD {
            walk.blind.users |= next != 0;
            return None;
        }
    }
    if payload.len() > TOTAL_MAX {
        walk.finding(Finding::Xattr {
            ino,
            field: "total size",
        });
        return None;
    }
    Some(payload)
}

/// Checks a list of attributes.
fn list(walk: &mut Walk<'_>, ino: u64, mut bytes: &[u8]) {
    let mut seen = HashSet::new();
    while !bytes.is_empty() {
        let Some(Attr {
            namespace, name, rest, ..
        }) = split(bytes)
        else {
            walk.finding(Finding::Xattr { ino, field: "length" });
            return;
        };
        walk.counts.xattrs += 1;
        let rules = [
            (usize::from(namespace) < NAMESPACES.len(), "namespace"),
            (
                name.is_empty() == (namespace >= WHOLE_NAMES) && !name.contains(&0),
                "name",
            ),
            (seen.insert((namespace, name)), "name (it is there twice)"),
        ];
        if let Some((_, field)) = rules.iter().find(|(holds, _)| !holds) {
            walk.finding(Finding::Xattr { ino, field });
        }
        bytes = rest;
    }
}

/// Whether these bytes are a list of attributes as S-7.4 allows.
pub(crate) fn is_list(mut bytes: &[u8]) -> bool {
    let mut seen = HashSet::new();
    while !bytes.is_empty() {
        let Some(attr) = split(bytes) else { return false };
        let is_right = usize::from(attr.namespace) < NAMESPACES.len()
            && attr.name.is_empty() == (attr.namespace >= WHOLE_NAMES)
            && !attr.name.contains(&0)
            && seen.insert((attr.namespace, attr.name));
        if !is_right {
            return false;
        }
        bytes = attr.rest;
    }
    true
}

/// The first attribute of a list.
pub(crate) struct Attr<'b> {
    pub namespace: u8,
    pub name: &'b [u8],
    pub value: &'b [u8],
    /// What follows it.
    pub rest: &'b [u8],
}

/// Takes the first attribute; None if it reaches beyond the list.
pub(crate) fn split(bytes: &[u8]) -> Option<Attr<'_>> {
    let (head, rest) = AttrHead::read_from_prefix(bytes).ok()?;
    let (name, rest) = rest.split_at_checked(head.name_len.into())?;
    let (value, rest) = rest.split_at_checked(head.value_len.get().into())?;
    Some(Attr {
        namespace: head.namespace,
        name,
        value,
        rest,
    })
}
