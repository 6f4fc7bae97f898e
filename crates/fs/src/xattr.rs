//! Extended attributes: a packed list in the inode or in a chain of metablocks (SPEC S-7.4).

mod list;
mod ops;

pub(crate) use list::{NS_ACL_ACCESS, NS_ACL_DEFAULT, find, put};

use crate::errors::{Step, damaged};
use crate::inode::Held;
use keepfs_format::inode::{Inode, XATTR, XATTR_CHAIN};
use keepfs_format::metablock::HEADER;
use keepfs_format::oplog::Action;
use keepfs_format::xattr::{ChainHead, PAYLOAD, PAYLOAD_OFFSET, TOTAL_MAX};
use keepfs_format::{FromZeros, IntoBytes, Kind, MetaId, PAGE, Space};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Meaning, Ref, Source, Txn};

/// Most metablocks of a chain.
const CHAIN_MAX: usize = TOTAL_MAX.div_ceil(PAYLOAD);

/// A chain metablock of `ino`, if the id can be one.
fn node(ino: u64, id: u64) -> Step<Ref> {
    let id = MetaId(id);
    if id.space() != Some(Space::Nodes) {
        return Err(damaged(ino, "the attribute chain points at no node (S-7.4)"));
    }
    Ok(Ref::node(id, Kind::Xattr, ino))
}

/// The metablocks of the chain with their heads, in order.
pub(crate) fn chain(source: &mut impl Source, ino: u64, inode: &Inode) -> Step<Vec<(Ref, ChainHead)>> {
    let mut nodes = Vec::new();
    if inode.xattr.get() != XATTR_CHAIN {
        return Ok(nodes);
    }
    let mut next = inode.xattrs.get();
    while next != 0 {
        if nodes.len() >= CHAIN_MAX {
            return Err(damaged(ino, "attribute chain too long (S-7.4)"));
        }
        let r = node(ino, next)?;
        if usize::from(source.birth(r)?.level) != nodes.len().min(255) {
            return Err(damaged(
                ino,
                "an attribute metablock has another level than its place (S-7.7)",
            ));
        }
        let mut head = ChainHead::new_zeroed();
        source.read(r, HEADER, head.as_mut_bytes())?;
        if usize::from(head.used.get()) > PAYLOAD {
            return Err(damaged(ino, "attribute metablock overfull (S-7.4)"));
        }
        nodes.push((r, head));
        next = head.next.get();
    }
    Ok(nodes)
}

/// All attributes of an inode, packed and checked.
pub(crate) fn load(source: &mut impl Source, ino: u64, inode: &Inode) -> Step<Vec<u8>> {
    let inline = inode.xattr.get();
    let mut packed = Vec::new();
    if inline == XATTR_CHAIN {
        for (r, head) in chain(source, ino, inode)? {
            let start = packed.len();
            packed.resize(start + usize::from(head.used.get()), 0);
            source.read(r, PAYLOAD_OFFSET, &mut packed[start..])?;
        }
    } else {
        packed.extend_from_slice(&inode.xattr_area[..usize::from(inline).min(XATTR)]);
    }
    if list::is_sound(&packed) {
        Ok(packed)
    } else {
        Err(damaged(ino, "attribute list cannot be read (S-7.4)"))
    }
}

/// Stores the packed attributes of an inode: in it if they fit, else in a chain.
pub(crate) fn store(txn: &mut Txn<'_>, held: &mut Held, packed: &[u8]) -> Step<()> {
    let mut old = chain(txn, held.ino, &held.now)?;
    held.now.xattr_area = [0; XATTR];
    if packed.len() <= XATTR {
        held.now.xattr_area[..packed.len()].copy_from_slice(packed);
        held.now.xattr.set(packed.len() as u16);
        held.now.xattrs.set(0);
    } else {
        let wanted = packed.len().div_ceil(PAYLOAD);
        let mut nodes: Vec<Ref> = old.drain(..old.len().min(wanted)).map(|(r, _)| r).collect();
        while nodes.len() < wanted {
            nodes.push(txn.new_node(Kind::Xattr, nodes.len().min(255) as u8, held.ino)?);
        }
        for (i, payload) in packed.chunks(PAYLOAD).enumerate() {
            write_node(txn, nodes[i], nodes.get(i + 1).copied(), payload)?;
        }
        held.now.xattr.set(XATTR_CHAIN);
        held.now.xattrs.set(nodes[0].id.0);
    }
    for (r, _) in old {
        txn.free_node(r)?;
    }
    Ok(())
}

/// Stores one metablock of a chain, only what differs.
fn write_node(txn: &mut Txn<'_>, r: Ref, next: Option<Ref>, payload: &[u8]) -> Step<()> {
    let mut old = [0; PAGE];
    txn.read(r, HEADER, &mut old[HEADER..])?;
    let head = ChainHead {
        next: next.map_or(0, |next| next.id.0).into(),
        used: match planted::has(Logic::UsedKept) {
            true => [old[HEADER + 8], old[HEADER + 9]].into(),
            false => (payload.len() as u16).into(),
        },
        reserved: [0; 6],
    };
    let mut new = [0; PAGE];
    new[HEADER..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
    new[PAYLOAD_OFFSET..PAYLOAD_OFFSET + payload.len()].copy_from_slice(payload);
    txn.put_diff(r, HEADER, &old[HEADER..], &new[HEADER..], Meaning::Xattr)?;
    Ok(())
}

/// Tells the operation log that an attribute of the list `packed`, which is not stored yet, is new or has a new value.
pub(crate) fn tell_set(txn: &mut Txn<'_>, held: &Held, packed: &[u8], namespace: u8, name: &[u8]) -> Step<()> {
    let set = Action::SetXattr {
        namespace,
        total: packed.len() as u32,
        name,
        value: list::find(packed, namespace, name).unwrap_or_default(),
        list: back_from_chain(held, packed),
    };
    Ok(txn.op(held.ino, set)?)
}

/// The same for one that is not in the list any more.
pub(crate) fn tell_removed(txn: &mut Txn<'_>, held: &Held, packed: &[u8], namespace: u8, name: &[u8]) -> Step<()> {
    let remove = Action::RemoveXattr {
        namespace,
        total: packed.len() as u32,
        name,
        list: back_from_chain(held, packed),
    };
    Ok(txn.op(held.ino, remove)?)
}

/// The list, if it comes back into the inode from a chain, which no replay of an inode could know (S-12.7).
fn back_from_chain<'p>(held: &Held, packed: &'p [u8]) -> &'p [u8] {
    if held.now.xattr.get() == XATTR_CHAIN && packed.len() <= XATTR {
        packed
    } else {
        &[]
    }
}

/// Frees the chain of an inode that ends.
pub(crate) fn free_all(txn: &mut Txn<'_>, held: &mut Held) -> Step<()> {
    if held.now.xattr.get() == XATTR_CHAIN {
        store(txn, held, &[])
    } else {
        Ok(())
    }
}

/// Removes `security.capability`, which no change of contents or owner leaves in place.
pub(crate) fn drop_capability(txn: &mut Txn<'_>, held: &mut Held) -> Step<()> {
    if held.now.xattr.get() == 0 {
        return Ok(());
    }
    let mut packed = load(txn, held.ino, &held.now)?;
    if list::remove(&mut packed, list::NS_SECURITY, b"capability") {
        tell_removed(txn, held, &packed, list::NS_SECURITY, b"capability")?;
        store(txn, held, &packed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
