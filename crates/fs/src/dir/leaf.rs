//! A private copy of a directory leaf: walking its entries, rebuilding (S-6.1, S-6.2).

use crate::errors::{Step, damaged};
use keepfs_format::dir::{DEAD, DEPTH_MAX, ENTRY_HEAD, EntryHead, FIRST, LIVE, LeafHead, entry_size};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, IntoBytes, PAGE};
use keepfs_store::{Ref, Source};

/// Offset of the leaf's head.
pub(super) const HEAD: usize = HEADER;
/// Offset of the local depth in the header.
pub(super) const DEPTH: usize = core::mem::offset_of!(keepfs_format::Header, level);

/// A leaf as it was when loaded. Its bytes lie where the caller keeps them: they are too many to be moved about.
pub(super) struct Leaf<'b> {
    pub r: Ref,
    pub bytes: &'b [u8; PAGE],
    pub head: LeafHead,
}

/// Where a caller keeps the bytes of a leaf.
pub(super) const EMPTY: [u8; PAGE] = [0; PAGE];

/// One entry of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub at: usize,
    pub size: usize,
    pub head: &'a EntryHead,
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Whether it counts.
    pub fn is_live(&self) -> bool {
        self.head.state == LIVE
    }
}

/// Goes through the entries of a leaf, dead ones too.
pub(super) struct Walk<'a> {
    leaf: &'a Leaf<'a>,
    at: usize,
}

impl<'a> Walk<'a> {
    /// The next entry; damage if it does not fit.
    pub fn next(&mut self) -> Step<Option<Entry<'a>>> {
        let (at, tail) = (self.at, usize::from(self.leaf.head.tail.get()));
        if at >= tail {
            return Ok(None);
        }
        let entry = self
            .leaf
            .entry(at)
            .ok_or_else(|| self.leaf.damage("directory entry out of bounds (S-6.2)"))?;
        self.at += entry.size;
        Ok(Some(entry))
    }
}

/// Refuses a tail or a depth that no leaf has.
pub(super) fn check_head(r: Ref, head: &LeafHead, depth: u8) -> Step<()> {
    match (FIRST..=PAGE).contains(&usize::from(head.tail.get())) && depth <= DEPTH_MAX {
        true => Ok(()),
        false => Err(damaged(r.owner, "directory leaf's head out of range (S-6.1)")),
    }
}

impl<'b> Leaf<'b> {
    /// Copies a leaf out of the store up to its tail, and checks its head. Behind the tail `bytes` stay what they were.
    pub fn load(source: &mut impl Source, r: Ref, bytes: &'b mut [u8; PAGE]) -> Step<Leaf<'b>> {
        source.read(r, 0, &mut bytes[..FIRST])?;
        let tail = usize::from(u16::from_le_bytes([bytes[HEAD], bytes[HEAD + 1]]));
        if let Some(entries) = bytes.get_mut(FIRST..tail) {
            source.read(r, FIRST, entries)?;
        }
        let head = LeafHead::read_from_bytes(&bytes[HEAD..FIRST]).unwrap_or_default();
        let leaf = Leaf { r, bytes, head };
        check_head(r, &leaf.head, leaf.depth())?;
        Ok(leaf)
    }

    /// Local depth (S-6.1).
    pub fn depth(&self) -> u8 {
        self.bytes[DEPTH]
    }

    fn damage(&self, what: &'static str) -> keepfs_store::Abort<crate::Error> {
        damaged(self.r.owner, what)
    }

    /// All entries.
    pub fn walk(&self) -> Walk<'_> {
        Walk { leaf: self, at: FIRST }
    }

    /// The entry at an offset, if it is one.
    pub fn entry(&self, at: usize) -> Option<Entry<'b>> {
        let tail = usize::from(self.head.tail.get());
        let head = EntryHead::ref_from_bytes(self.bytes.get(at..at + ENTRY_HEAD)?).ok()?;
        let size = entry_size(usize::from(head.name_len));
        if head.name_len == 0 || at + size > tail || (head.state != LIVE && head.state != DEAD) {
            return None;
        }
        let name = &self.bytes[at + ENTRY_HEAD..at + ENTRY_HEAD + usize::from(head.name_len)];
        Some(Entry { at, size, head, name })
    }

    /// The bytes behind the header with only the live entries that `keep` wants, packed; what lies behind the tail
    /// stays as it was, so that little changes.
    pub fn packed(&self, mut keep: impl FnMut(u64) -> bool) -> Step<[u8; PAGE]> {
        let mut image = *self.bytes;
        let mut tail = FIRST;
        let mut live = 0u16;
        let mut walk = self.walk();
        while let Some(entry) = walk.next()? {
            if entry.is_live() && keep(entry.head.key.get()) {
                image[tail..tail + entry.size].copy_from_slice(&self.bytes[entry.at..entry.at + entry.size]);
                tail += entry.size;
                live += 1;
            }
        }
        let head = LeafHead {
            tail: (tail as u16).into(),
            live: live.into(),
            ..LeafHead::default()
        };
        image[HEAD..FIRST].copy_from_slice(head.as_bytes());
        Ok(image)
    }
}
