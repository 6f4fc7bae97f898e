//! Changes of block map nodes, directory indexes and xattr nodes (S-6.4, S-7.1, S-7.2, S-7.4).

use crate::equation::Equation;
use crate::input::{Block, Fate, Transaction};
use crate::local::CHAIN_HEAD;
use crate::sink::Sink;
use crate::walk::{Carried, Image, Walk};
use core::ops::Range;
use keepfs_format::blockmap::{Child, FANOUT, PageEntry, UNWRITTEN, WRITTEN};
use keepfs_format::dir::{CHILDREN, child_offset};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, Header, MetaId};

/// Bytes of an entry of a block map node.
const ENTRY: usize = size_of::<PageEntry>();
/// First byte behind them.
const ENTRIES_END: usize = HEADER + FANOUT as usize * ENTRY;

fn has_page(entry: &PageEntry) -> bool {
    matches!(entry.flags(), WRITTEN | UNWRITTEN)
}

/// The entries that the bytes of a span lie in.
fn whole(span: Range<usize>) -> Range<usize> {
    let start = HEADER + (span.start.max(HEADER) - HEADER) / ENTRY * ENTRY;
    let end = HEADER + (span.end.max(HEADER) - HEADER).next_multiple_of(ENTRY);
    start..end.min(ENTRIES_END)
}

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// A page entry of `owner` became another one (S-7.2). Returns by how many more entries are no holes.
    #[inline]
    pub(crate) fn entry(&mut self, owner: u64, was: &PageEntry, is: &PageEntry) -> i64 {
        if *is == PageEntry::HOLE {
            if has_page(was) {
                self.lost(was.page());
            }
            return -i64::from(!was.is_hole());
        }
        let more = i64::from(!is.is_hole()) - i64::from(!was.is_hole());
        if was == is {
            return more;
        }
        self.page_entry_fields(owner, is);
        let page = |entry: &PageEntry| has_page(entry).then_some(entry.page());
        if page(was) != page(is) {
            page(was).into_iter().for_each(|p| self.lost(p));
            page(is).into_iter().for_each(|p| self.gained(p));
        }
        if let Some(p) = page(is) {
            self.sink.pair(Equation::EntriesTold, p, u64::from(is.crc.get()), 1);
        }
        more
    }

    /// A block map node.
    pub(crate) fn map_node(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let span = whole(self.span(block, changes));
        self.image(block, changes, span.clone(), image);
        let Some((index, _)) = changes.first() else { return };
        let level = self.txn.bytes(*index)(core::mem::offset_of!(Header, level));
        self.level(block, *index);
        let first = (span.start - HEADER) / ENTRY;
        let entries = |page| <[u8]>::as_chunks::<ENTRY>(page).0.iter();
        let pages = image.of(block.fate);
        let (before, after) = (entries(&pages.0[span.clone()]), entries(&pages.1[span]));
        let mut more = 0;
        for (at, (was, is)) in before.zip(after).enumerate() {
            if u128::from_le_bytes(*was) == u128::from_le_bytes(*is) {
                continue;
            }
            match level {
                1 => more += self.page_entry(block, (first + at) as u64, was, is),
                _ => self.child(block.owner, was, is),
            }
        }
        if more != 0 {
            self.count_entries(block.owner, more);
        }
    }

    /// Returns by how many more entries are no holes.
    #[inline]
    fn page_entry(&mut self, block: &Block, slot: u64, was: &[u8; ENTRY], is: &[u8; ENTRY]) -> i64 {
        let read = |bytes: &[u8; ENTRY]| PageEntry::read_from_bytes(bytes).unwrap_or_default();
        let (was, is) = (read(was), read(is));
        let carried = |c: &Carried| c.ino == block.owner && c.slot == slot && c.entry == is;
        if block.fate == Fate::Born
            && let Some(found) = self.spare.carried.iter().position(carried)
        {
            self.spare.carried.swap_remove(found);
            return 0;
        }
        self.entry(block.owner, &was, &is)
    }

    fn child(&mut self, owner: u64, was: &[u8], is: &[u8]) {
        let read = |bytes: &[u8]| Child::read_from_bytes(bytes).unwrap_or_default();
        let (was, is) = (read(was), read(is));
        self.child_fields(owner, &is);
        self.reference(was.id.get(), is.id.get());
        if is.id.get() == 0 || !self.sink.wants(Equation::ChildGenerations) {
            return;
        }
        if let Some(node) = self.find(MetaId(is.id.get())) {
            let mut generation = [0; 4];
            self.txn
                .load(node, core::mem::offset_of!(Header, generation), &mut generation);
            let told = u64::from(is.generation.get());
            self.equal(
                Equation::ChildGenerations,
                is.id.get(),
                told,
                u64::from(u32::from_le_bytes(generation)),
            );
        }
    }

    /// A directory index: neighbouring slots that name the same node are one reference.
    pub(crate) fn index(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let slots = self.slots(block, changes);
        let span = child_offset(0) + slots.start * 8..child_offset(0) + slots.end * 8;
        self.image(block, changes, span.clone(), image);
        let Some((index, _)) = changes.first() else { return };
        self.level(block, *index);
        let pages = image.of(block.fate);
        let images = [pages.0, pages.1].map(|page| page[span.clone()].as_chunks::<8>().0);
        for (slot, (was, is)) in slots.clone().zip(images[0].iter().zip(images[1])) {
            self.slot_fields(block, slot as u64, u64::from_le_bytes(*was), u64::from_le_bytes(*is));
        }
        // The slot before those that changed only tells whether the next one is another reference.
        let from = usize::from(slots.start > 0);
        for (children, times) in images.into_iter().zip([-1, 1]) {
            let before = children.first().filter(|_| from > 0);
            let mut last = before.map_or(0, |slot| u64::from_le_bytes(*slot));
            for slot in children.iter().skip(from) {
                let id = u64::from_le_bytes(*slot);
                if id != last && id != 0 {
                    self.sink.run(Equation::NodeReferences, MetaId(id).index(), 1, times);
                }
                last = id;
            }
        }
    }

    /// Slots of an index that changed, and one before and one behind them; of one that is born or dies all.
    fn slots(&self, block: &Block, changes: &[(usize, usize)]) -> Range<usize> {
        if block.fate != Fate::Stays {
            return 0..CHILDREN;
        }
        let span = self.span(block, changes);
        let slot = |offset: usize| offset.saturating_sub(child_offset(0)) / 8;
        let end = (slot(span.end + 7) + 1).min(CHILDREN);
        slot(span.start).saturating_sub(1).min(end)..end
    }

    /// An xattr node: which is next.
    pub(crate) fn xattr_node(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let span = CHAIN_HEAD;
        self.image(block, changes, span.clone(), image);
        let pages = image.of(block.fate);
        self.chain_fields(block, &pages.0[span.clone()], &pages.1[span.clone()]);
        let next = |bytes: &[u8]| bytes.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        self.reference(next(&pages.0[span.clone()]), next(&pages.1[span]));
    }
}
