//! Listing a directory in the order of its cookies, a leaf at a time.

use super::descend;
use super::leaf::{self, Leaf};
use crate::errors::{Step, damaged};
use keepfs_format::PAGE;
use keepfs_format::dir::LeafHead;
use keepfs_store::{Ref, Source};
use keepfs_vfs::{DirEntry, FileKind, Ino};

/// The live entries of one leaf from a key on, in key order.
pub(crate) struct Listing {
    r: Ref,
    bytes: Box<[u8; PAGE]>,
    head: LeafHead,
    order: Vec<(u64, u16)>,
    /// The least key of the leaves behind, if there are any.
    pub next: Option<u64>,
}

impl Listing {
    /// The entries, ascending by cookie.
    pub fn entries(&self) -> impl Iterator<Item = DirEntry<'_>> {
        self.order.iter().filter_map(move |&(key, at)| {
            let leaf = Leaf {
                r: self.r,
                bytes: &self.bytes,
                head: self.head,
            };
            let entry = leaf.entry(usize::from(at))?;
            Some(DirEntry {
                ino: Ino(entry.head.ino.get()),
                kind: FileKind::of_mode(u32::from(entry.head.kind) << 12)?,
                name: entry.name,
                cookie: key,
            })
        })
    }
}

/// The entries of the leaf that `from` leads to, those below `from` left out.
pub(crate) fn list(source: &mut impl Source, ino: u64, root: u64, from: u64) -> Step<Listing> {
    let way = descend(source, ino, root, from)?;
    let mut bytes = Box::new(leaf::EMPTY);
    let leaf = Leaf::load(source, way.leaf, &mut bytes)?;
    let mut order = Vec::with_capacity(usize::from(leaf.head.live.get()).min(128));
    let mut walk = leaf.walk();
    while let Some(entry) = walk.next()? {
        let key = entry.head.key.get();
        if entry.is_live() && key >= from {
            if FileKind::of_mode(u32::from(entry.head.kind) << 12).is_none() {
                return Err(damaged(ino, "directory entry of no kind (S-6.2)"));
            }
            order.push((key, entry.at as u16));
        }
    }
    order.sort_unstable();
    let next = way.last.and_then(|turn| behind(from, turn.level, leaf.depth()));
    let head = leaf.head;
    Ok(Listing {
        r: way.leaf,
        bytes,
        head,
        order,
        next,
    })
}

/// The least key behind a leaf of local depth `depth` that stands under an index of `level` where `key` leads.
pub(super) fn behind(key: u64, level: u8, depth: u8) -> Option<u64> {
    let shift = 56 - 8 * u32::from(level);
    let width = 1u64 << (8 - depth);
    let slots = (key << 1) >> shift;
    let end = u128::from((slots & !(width - 1)) + width) << shift;
    u64::try_from(end).ok().map(|end| end >> 1)
}
