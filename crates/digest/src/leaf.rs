//! Reading the entries of an image of a directory leaf (S-6.1, S-6.2).

use keepfs_format::dir::{ENTRY_HEAD, EntryHead, FIRST, LeafHead, entry_size};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, PAGE, Page};

/// Offset of the length of the name in an entry.
pub(crate) const NAME_LEN: usize = core::mem::offset_of!(EntryHead, name_len);

/// An entry of a leaf.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'p> {
    pub head: EntryHead,
    pub name: &'p [u8],
    /// All its bytes.
    pub bytes: &'p [u8],
}

impl<'p> Entry<'p> {
    /// The bytes behind its name.
    pub fn padding(&self) -> &'p [u8] {
        self.bytes.get(ENTRY_HEAD + self.name.len()..).unwrap_or_default()
    }
}

/// By how many entries more are live, and how many bytes more are dead.
#[derive(Clone, Copy, Default)]
pub(crate) struct More {
    pub live: i64,
    pub dead: i64,
}

impl core::ops::AddAssign for More {
    fn add_assign(&mut self, other: More) {
        self.live += other.live;
        self.dead += other.dead;
    }
}

impl core::ops::SubAssign for More {
    fn sub_assign(&mut self, other: More) {
        self.live -= other.live;
        self.dead -= other.dead;
    }
}

/// Going through the entries of an image of a leaf, dead ones too; ends where one does not fit.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    pub at: usize,
    pub tail: usize,
    /// It ended at bytes before the tail that are no entry.
    pub is_cut: bool,
}

impl Cursor {
    /// At the first entry of a leaf.
    pub fn new(tail: usize) -> Cursor {
        Cursor {
            at: FIRST,
            tail,
            is_cut: false,
        }
    }

    /// The entry under the cursor, which goes on to the next one, or behind every entry.
    pub fn next<'p>(&mut self, page: &'p Page) -> Option<Entry<'p>> {
        let entry = self.entry(page);
        self.is_cut |= entry.is_none() && self.at < self.tail;
        self.at = entry.map_or(usize::MAX, |e| self.at + e.bytes.len());
        entry
    }

    /// Where the entry at `at` ends, if the cursor is there; its head is in the image.
    pub fn behind(&self, at: usize, page: &Page) -> usize {
        match page.get(at + NAME_LEN) {
            Some(len) if self.at == at => at + entry_size(usize::from(*len)),
            _ => 0,
        }
    }

    fn entry<'p>(&self, page: &'p Page) -> Option<Entry<'p>> {
        let bytes = page.get(self.at..self.tail)?;
        let (head, _) = EntryHead::read_from_prefix(bytes).ok()?;
        let len = usize::from(head.name_len);
        let bytes = bytes.get(..entry_size(len))?;
        let name = bytes.get(ENTRY_HEAD..ENTRY_HEAD + len)?;
        Some(Entry { head, name, bytes })
    }
}

/// Where the entries of a leaf end.
pub(crate) fn tail(page: &Page) -> usize {
    usize::from(u16::from_le_bytes([page[HEADER], page[HEADER + 1]])).min(PAGE)
}

/// The head of a leaf.
pub(crate) fn head(page: &Page) -> LeafHead {
    LeafHead::read_from_prefix(&page[HEADER..]).unwrap_or_default().0
}
