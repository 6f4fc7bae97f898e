//! Listing a directory in the order of its cookies, a leaf at a time.

use super::leaf::{self, Leaf};
use super::{Turn, check_slots, descend, slots_at};
use crate::errors::{Step, damaged};
use keepfs_format::PAGE;
use keepfs_format::dir::LeafHead;
use keepfs_store::{Birth, Ref, Source};
use keepfs_vfs::{DirEntry, FileKind, Ino};

/// The live entries of one leaf from a key on, in key order.
pub(crate) struct Listing {
    /// The leaf.
    pub r: Ref,
    /// Which life of it, and its depth.
    pub birth: Birth,
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

/// The entries of the leaf that `from` leads to, those below `from` left out. Errors: damage, also if the leaf is not where its
/// depth and its keys say (S-6.7).
pub(crate) fn list(source: &mut impl Source, ino: u64, root: u64, from: u64) -> Step<Listing> {
    let way = descend(source, ino, root, from)?;
    let mut bytes = Box::new(leaf::EMPTY);
    let birth = source.birth(way.leaf)?;
    let leaf = Leaf::load(source, way.leaf, &mut bytes)?;
    let span = match way.last {
        None => 0..=u64::MAX,
        Some(turn) => {
            check_slots(source, turn, way.leaf, leaf.depth())?;
            span(from, turn, leaf.depth())
        }
    };
    let mut order = Vec::with_capacity(usize::from(leaf.head.live.get()).min(128));
    let mut walk = leaf.walk();
    while let Some(entry) = walk.next()? {
        let key = entry.head.key.get();
        if entry.is_live() && !span.contains(&key) {
            return Err(damaged(ino, "a directory entry's key leads to another leaf (S-6.7)"));
        }
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
        birth,
        bytes,
        head,
        order,
        next,
    })
}

/// The keys that lead to a leaf of local depth `depth` to which `key` leads, behind that turn.
fn span(key: u64, turn: Turn, depth: u8) -> core::ops::RangeInclusive<u64> {
    let shift = 56 - 8 * u32::from(turn.level);
    let above = (key << 1) >> shift >> 8 << 8;
    let least = ((above + slots_at(turn.slot, depth).start as u64) << shift) >> 1;
    least..=behind(key, turn.level, depth).map_or(u64::MAX, |behind| behind - 1)
}

/// The least key behind a leaf of local depth `depth` that stands under an index of `level` where `key` leads.
pub(super) fn behind(key: u64, level: u8, depth: u8) -> Option<u64> {
    let shift = 56 - 8 * u32::from(level);
    let width = 1u64 << (8 - depth);
    let slots = (key << 1) >> shift;
    let end = u128::from((slots & !(width - 1)) + width) << shift;
    u64::try_from(end).ok().map(|end| end >> 1)
}
