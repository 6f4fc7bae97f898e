//! Looking for a name in a leaf (S-6.2): the leaf is copied and verified as a whole, since a search reads most of its lines, and
//! of most entries only what tells them from others is looked at (decision 0673).

use super::leaf::{DEPTH, HEAD, check_head};
use super::{Found, Room};
use crate::errors::{Step, damaged};
use core::mem::offset_of;
use core::ops::Range;
use keepfs_format::dir::{DEAD, ENTRY_HEAD, EntryHead, FIRST, LIVE, LeafHead, TWINS, entry_size};
use keepfs_format::{FromBytes, PAGE};
use keepfs_store::scratch::with_page;
use keepfs_store::{Ref, Source};
use keepfs_vfs::FileKind;

/// Offset of the word of an entry that has its kind, the length of its name and its state.
const FACTS: usize = offset_of!(EntryHead, kind);
const _: () = assert!(offset_of!(EntryHead, name_len) == FACTS + 1 && offset_of!(EntryHead, state) == FACTS + 2);
const _: () = assert!(FACTS.is_multiple_of(4) && FIRST.is_multiple_of(4) && ENTRY_HEAD.is_multiple_of(4));
/// The bits by which the keys of names with the same first key differ.
const TWIN: u32 = TWINS as u32 - 1;

/// What is looked for, and what was found so far.
pub(super) struct Search<'n> {
    leaf: Ref,
    key: u64,
    name: &'n [u8],
    pub found: Option<Found>,
    pub room: Room,
}

/// Looks for `name`, whose first key is `key`, in a leaf; damage if its head is out of range or an entry does not fit.
pub(super) fn search<'n>(source: &mut impl Source, leaf: Ref, key: u64, name: &'n [u8]) -> Step<Search<'n>> {
    with_page(|page| {
        source.whole(leaf, page)?;
        search_in(page, leaf, key, name)
    })
}

fn search_in<'n>(page: &[u8; PAGE], leaf: Ref, key: u64, name: &'n [u8]) -> Step<Search<'n>> {
    let (words, _) = page.as_chunks();
    // A mask and a comparison that always holds: this is asked for each entry of a leaf.
    let word = |at: usize| words.get(at % PAGE / 4).map_or(0, |word| u32::from_le_bytes(*word));
    let head = LeafHead::read_from_bytes(&long(&word, HEAD).to_le_bytes()).unwrap_or_default();
    check_head(leaf, &head, word(DEPTH).to_le_bytes()[DEPTH % 4])?;
    let room = Room {
        head,
        ..Room::default()
    };
    let mut search = Search {
        leaf,
        key,
        name,
        found: None,
        room,
    };
    let tail = usize::from(head.tail.get());
    let mut at = FIRST;
    while at < tail {
        let facts = word(at + FACTS);
        let [_, len, state, _] = facts.to_le_bytes();
        let behind = at + entry_size(usize::from(len));
        if len == 0 || behind > tail {
            return Err(search.damage());
        }
        if state != LIVE {
            search.dead(state, at..behind)?;
        } else {
            let low = word(at);
            // Half of the key is enough to tell most others.
            if low & !TWIN == key as u32 {
                search.twin(&word, at..behind, low, facts)?;
            }
        }
        at = behind;
    }
    Ok(search)
}

impl Search<'_> {
    #[cold]
    fn damage(&self) -> keepfs_store::Abort<crate::Error> {
        damaged(self.leaf.owner, "directory entry out of bounds (S-6.2)")
    }

    /// An entry that does not count.
    #[inline(never)]
    fn dead(&mut self, state: u8, entry: Range<usize>) -> Step<()> {
        if state != DEAD {
            return Err(self.damage());
        }
        if entry.len() == entry_size(self.name.len()) {
            self.room.dead = self.room.dead.or(Some(entry.start));
        }
        Ok(())
    }

    /// A live entry whose key has the lower half of the name's but for the bits that tell twins.
    #[inline(never)]
    fn twin(&mut self, word: &impl Fn(usize) -> u32, entry: Range<usize>, low: u32, facts: u32) -> Step<()> {
        let at = entry.start;
        if word(at + 4) != (self.key >> 32) as u32 {
            return Ok(());
        }
        self.room.twins |= 1 << (low & TWIN);
        let [kind, len, ..] = facts.to_le_bytes();
        if usize::from(len) != self.name.len() || !is_named(word, at + ENTRY_HEAD, self.name) {
            return Ok(());
        }
        let kind = FileKind::of_mode(u32::from(kind) << 12)
            .ok_or_else(|| damaged(self.leaf.owner, "directory entry of no kind (S-6.2)"))?;
        let ino = long(word, at + offset_of!(EntryHead, ino));
        if ino == 0 {
            return Err(damaged(self.leaf.owner, "directory entry names inode 0 (S-6.6)"));
        }
        self.found = Some(Found {
            ino,
            kind,
            leaf: self.leaf,
            at,
            head: self.room.head,
            size: entry.len(),
        });
        Ok(())
    }
}

/// Two words as one.
fn long(word: &impl Fn(usize) -> u32, at: usize) -> u64 {
    u64::from(word(at)) | u64::from(word(at + 4)) << 32
}

/// Whether the bytes from `at` on are those of `name`.
fn is_named(word: &impl Fn(usize) -> u32, at: usize, name: &[u8]) -> bool {
    let mut parts = name.chunks(4).zip((at..).step_by(4));
    parts.all(|(part, at)| word(at).to_le_bytes().starts_with(part))
}

#[cfg(test)]
mod tests;
