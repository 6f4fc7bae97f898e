//! Changes of directory leaves (S-6.1 to S-6.3).

use super::Block;
use super::equation::Equation;
use super::inodes::{DIRECTORY, kind};
use super::input::{Fate, Transaction};
use super::sink::Sink;
use super::walk::{Image, Walk};
use crate::Page;
use keepfs_format::dir::{ENTRY_HEAD, EntryHead, FIRST, LIVE, LeafHead, TWINS, entry_size, name_key};
use keepfs_format::inode;
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, PAGE};

/// An entry of a leaf.
#[derive(Clone, Copy)]
struct Entry<'p> {
    head: EntryHead,
    name: &'p [u8],
    /// All its bytes.
    bytes: &'p [u8],
}

/// The entries of an image of a leaf, dead ones too; ends where one does not fit.
struct Entries<'p> {
    page: &'p Page,
    at: usize,
    tail: usize,
}

impl<'p> Entries<'p> {
    fn of(page: &'p Page) -> Self {
        Entries {
            page,
            at: FIRST,
            tail: tail(page),
        }
    }
}

impl<'p> Iterator for Entries<'p> {
    type Item = Entry<'p>;

    fn next(&mut self) -> Option<Entry<'p>> {
        let bytes = self.page.get(self.at..self.tail)?;
        let (head, _) = EntryHead::read_from_prefix(bytes).ok()?;
        let len = usize::from(head.name_len);
        let bytes = bytes.get(..entry_size(len))?;
        self.at += bytes.len();
        Some(Entry {
            head,
            name: bytes.get(ENTRY_HEAD..ENTRY_HEAD + len)?,
            bytes,
        })
    }
}

/// Where the entries of a leaf end.
fn tail(page: &Page) -> usize {
    usize::from(u16::from_le_bytes([page[HEADER], page[HEADER + 1]])).min(PAGE)
}

fn live(page: &Page) -> u64 {
    let (head, _) = LeafHead::read_from_prefix(&page[HEADER..]).unwrap_or_default();
    u64::from(head.live.get())
}

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// A directory leaf: the live entries that came and went.
    pub(super) fn leaf(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        // What lies behind both tails is not read.
        self.image(block, changes, HEADER..FIRST, image);
        let end = tail(&image.before).max(tail(&image.after)).max(FIRST);
        self.image(block, changes, FIRST..end, image);
        let told = live(&image.after).wrapping_sub(live(&image.before)) as i64;
        let (mut before, mut after) = (Entries::of(&image.before), Entries::of(&image.after));
        let mut found = 0;
        loop {
            let (was, is) = (before.next(), after.next());
            if was.is_none() && is.is_none() {
                break;
            }
            // The same entry at the same place, which is most of them, did not change.
            if let (Some(was), Some(is)) = (&was, &is)
                && was.bytes == is.bytes
            {
                continue;
            }
            for (entry, times) in [(was, -1), (is, 1)] {
                let Some(entry) = entry.filter(|e| e.head.state == LIVE) else {
                    continue;
                };
                found += times;
                self.dirent(block.owner, &entry, times);
                if times > 0 && block.fate == Fate::Stays {
                    self.new_entry(&entry);
                }
            }
        }
        self.sink.pair(Equation::DirEntries, block.owner, 0, -found);
        self.sink.pair(Equation::LeafLive, block.id.0, 0, told - found);
    }

    fn dirent(&mut self, dir: u64, entry: &Entry<'_>, times: i64) {
        let child = entry.head.ino.get();
        self.sink.pair(Equation::Links, child, 0, -times);
        self.sink.pair(Equation::NamesTold, child, dir, times);
        if self.txn.operations().is_some() {
            self.sink.pair(Equation::NamesDone, child, dir, times);
        }
        if entry.head.kind == DIRECTORY {
            self.sink.pair(Equation::Subdirectories, dir, 0, -times);
            self.sink.pair(Equation::Parents, child, dir, -times);
        }
    }

    /// What a new entry says of itself. Inodes that the transaction did not touch are not known; an entry that only moved
    /// within its leaf is looked at, too.
    fn new_entry(&mut self, entry: &Entry<'_>) {
        if self.sink.wants(Equation::Keys) {
            let key = name_key(self.name_seed, entry.name);
            let told = entry.head.key.get() & !(TWINS - 1);
            self.equal(Equation::Keys, entry.head.ino.get(), told, key);
        }
        let child = entry.head.ino.get();
        if self.sink.wants(Equation::Kinds)
            && let Some(inode) = self.inode_now(child)
        {
            let is = match inode.state.get() {
                inode::LIVE => u64::from(kind(&inode)),
                _ => u64::MAX,
            };
            self.equal(Equation::Kinds, child, u64::from(entry.head.kind), is);
        }
    }
}
