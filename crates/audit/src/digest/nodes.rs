//! Changes of block map nodes, directory indexes and xattr nodes (S-6.4, S-7.1, S-7.2, S-7.4).

use super::Block;
use super::equation::Equation;
use super::input::{Fate, Transaction};
use super::local::CHAIN_HEAD;
use super::sink::Sink;
use super::walk::{Image, Walk};
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
    /// A page entry of `owner` became another one (S-7.2).
    pub(super) fn entry(&mut self, owner: u64, was: &PageEntry, is: &PageEntry) {
        if was == is {
            return;
        }
        self.count_entries(owner, i64::from(!is.is_hole()) - i64::from(!was.is_hole()));
        if *is != PageEntry::HOLE {
            self.page_entry_fields(owner, is);
        }
        let page = |entry: &PageEntry| has_page(entry).then_some(entry.page());
        if page(was) != page(is) {
            page(was).into_iter().for_each(|p| self.lost(p));
            page(is).into_iter().for_each(|p| self.gained(p));
        }
        if let Some(p) = page(is) {
            self.sink.pair(Equation::EntriesTold, p, u64::from(is.crc.get()), 1);
        }
    }

    /// A block map node.
    pub(super) fn map_node(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let span = whole(self.span(block, changes));
        self.image(block, changes, span.clone(), image);
        let Some((index, _)) = changes.first() else { return };
        let level = self.txn.byte(*index, core::mem::offset_of!(Header, level));
        self.level(block, *index);
        let first = (span.start - HEADER) / ENTRY;
        let entries = |page| <[u8]>::as_chunks::<ENTRY>(page).0.iter();
        let (before, after) = (entries(&image.before[span.clone()]), entries(&image.after[span]));
        for (at, (was, is)) in before.zip(after).enumerate() {
            if was == is {
                continue;
            }
            match level {
                1 => self.page_entry(block, (first + at) as u64, was, is),
                _ => self.child(block.owner, was, is),
            }
        }
    }

    fn page_entry(&mut self, block: &Block, slot: u64, was: &[u8], is: &[u8]) {
        let read = |bytes: &[u8]| PageEntry::read_from_bytes(bytes).unwrap_or_default();
        let (was, is) = (read(was), read(is));
        let carried = |c: &super::walk::Carried| c.ino == block.owner && c.slot == slot && c.entry == is;
        if block.fate == Fate::Born
            && let Some(found) = self.carried.iter().position(carried)
        {
            self.carried.swap_remove(found);
            return;
        }
        self.entry(block.owner, &was, &is);
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
    pub(super) fn index(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let span = HEADER..child_offset(0) + CHILDREN * 8;
        self.image(block, changes, span.clone(), image);
        let Some((index, _)) = changes.first() else { return };
        self.level(block, *index);
        let (before, after) = (&image.before[span.clone()], &image.after[span.clone()]);
        let slots = before.as_chunks().0.iter().zip(after.as_chunks().0);
        for (slot, (was, is)) in (0..).zip(slots) {
            self.slot_fields(block, slot, u64::from_le_bytes(*was), u64::from_le_bytes(*is));
        }
        for (bytes, times) in [(&image.before[span.clone()], -1), (&image.after[span], 1)] {
            let mut last = 0;
            for slot in bytes.as_chunks::<8>().0 {
                let id = u64::from_le_bytes(*slot);
                if id != last && id != 0 {
                    self.sink.run(Equation::NodeReferences, MetaId(id).index(), 1, times);
                }
                last = id;
            }
        }
    }

    /// An xattr node: which is next.
    pub(super) fn xattr_node(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let span = CHAIN_HEAD;
        self.image(block, changes, span.clone(), image);
        self.chain_fields(block, &image.before[span.clone()], &image.after[span.clone()]);
        let next = |bytes: &[u8]| bytes.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
        self.reference(next(&image.before[span.clone()]), next(&image.after[span]));
    }
}
