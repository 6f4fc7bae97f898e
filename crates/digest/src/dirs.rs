//! Changes of directory leaves (S-6.1 to S-6.3).

use crate::equation::Equation;
use crate::inodes::kind;
use crate::input::{Block, Fate, Nature, Transaction};
use crate::leaf::{Cursor, Entry, More, NAME_LEN, head, tail};
use crate::sink::Sink;
use crate::walk::{Image, Walk};
use keepfs_format::dir::{DEAD, ENTRY_HEAD, FIRST, LIVE, LeafHead, NAME_MAX, TWINS, entry_size, name_key};
use keepfs_format::inode;
use keepfs_format::metablock::HEADER;
use keepfs_format::{Kind, PAGE};

/// Bytes of the largest entry.
const ENTRY_MAX: usize = entry_size(NAME_MAX);
/// Most parts of a leaf that are looked at one by one.
const PARTS: usize = 4;
/// Parts of a leaf in which its two images may differ, ascending, at least [`ENTRY_MAX`] apart.
#[derive(Default)]
struct Parts {
    parts: [(usize, usize); PARTS],
    count: usize,
}

impl Parts {
    /// One more; if there are too many, all of them are one.
    fn add(&mut self, mut start: usize, mut end: usize) {
        let near =
            |(from, to): (usize, usize), start: usize, end: usize| from <= end + ENTRY_MAX && start <= to + ENTRY_MAX;
        let mut at = 0;
        while at < self.count {
            let part = self.parts[at];
            if near(part, start, end) || self.count == PARTS {
                (start, end) = (start.min(part.0), end.max(part.1));
                self.count -= 1;
                self.parts[at] = self.parts[self.count];
                // The part has grown: others may be near now.
                at = 0;
            } else {
                at += 1;
            }
        }
        self.parts[self.count] = (start, end);
        self.count += 1;
        self.parts[..self.count].sort_unstable();
    }
}

/// How much more a field of a leaf's head says.
fn told(was: keepfs_format::le::U16, is: keepfs_format::le::U16) -> i64 {
    i64::from(is.get()) - i64::from(was.get())
}

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// A directory leaf: the live entries that came and went. Equal bytes are equal entries where both images begin an
    /// entry at the same place, so only the parts that changed are decoded, and the heads on the way to them.
    pub(crate) fn leaf(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        let Some((index, _)) = changes.first() else { return };
        // What lies behind both tails is not read.
        self.image(block, changes, HEADER..FIRST, image);
        let pages = image.of(block.fate);
        let (was, is) = (tail(pages.0), tail(pages.1));
        let heads = (head(pages.0), head(pages.1));
        self.level(block, *index);
        self.leaf_fields(block, &heads.0, &heads.1);
        if block.fate == Fate::Born {
            self.spare.dying.iter_mut().for_each(|leaf| leaf.rewind());
        }
        let parts = self.parts(block, changes, (was, is));
        let cursor = Cursor::new;
        let mut cursors = (cursor(was), cursor(is));
        let mut found = More::default();
        for (start, end) in &parts.parts[..parts.count] {
            if cursors.0.at == cursors.1.at && cursors.0.at < *start {
                // Entries end at the tail, and did before (E-41): no way leads there.
                let at = match *start == was {
                    true => was,
                    false => self.skip(*index, cursors.0.at, *start),
                };
                (cursors.0.at, cursors.1.at) = (at, at);
            }
            found += self.part(block, changes, image, &mut cursors, *end);
        }
        if cursors.1.is_cut && !cursors.0.is_cut && block.fate != Fate::Dies {
            self.sink
                .breach(Equation::NodeFields, block.id.0, is as u64, "end of the entries");
        }
        self.tell_leaf(block, (&heads.0, &heads.1), found);
    }

    /// What a leaf has more, by its entries and by its head before and after.
    pub(crate) fn tell_leaf(&mut self, block: &Block, (was, is): (&LeafHead, &LeafHead), found: More) {
        self.sink.pair(Equation::DirEntries, block.owner, 0, -found.live);
        let (live, dead) = (told(was.live, is.live), told(was.dead, is.dead));
        self.sink.pair(Equation::LeafLive, block.id.0, 0, live - found.live);
        self.sink.pair(Equation::LeafDead, block.id.0, 0, dead - found.dead);
    }

    /// Where the images may differ: the bytes that changed, and all between two tails.
    fn parts(&self, block: &Block, changes: &[(usize, usize)], (was, is): (usize, usize)) -> Parts {
        let (least, most) = (was.min(is).max(FIRST), was.max(is).max(FIRST));
        let mut parts = Parts::default();
        if block.fate != Fate::Stays {
            parts.add(FIRST, most);
            return parts;
        }
        if least < most {
            parts.add(least, most);
        }
        let all = self.txn.changes();
        for change in changes.iter().filter_map(|(_, at)| all.get(*at)) {
            let (start, end) = (change.offset.max(FIRST), (change.offset + change.new.len()).min(most));
            if start < end {
                parts.add(start, end);
            }
        }
        parts
    }

    /// From the entry at `at` on to the one that `to` lies in, by the lengths of names, which are equal before and after.
    fn skip(&self, index: usize, mut at: usize, to: usize) -> usize {
        let byte = self.txn.bytes(index);
        // No entry is empty: who is at `to` goes beyond it.
        loop {
            match at + entry_size(usize::from(byte(at + NAME_LEN))) {
                next if next > to => return at,
                next => at = next,
            }
        }
    }

    /// The entries from the cursors on, until both are at the same place behind `end`, or behind all. Returns by how many
    /// more are live and dead.
    fn part(
        &mut self,
        block: &Block,
        changes: &[(usize, usize)],
        image: &mut Image,
        (before, after): &mut (Cursor, Cursor),
        end: usize,
    ) -> More {
        let most = before.tail.max(after.tail).max(FIRST);
        let mut loaded = before.at.min(after.at).min(most);
        let mut found = More::default();
        while before.at != after.at || (before.at < end && before.at != usize::MAX) {
            let at = before.at.min(after.at);
            if at.saturating_add(ENTRY_MAX) > loaded && loaded < most {
                // Its head tells how long an entry is.
                let mut to = (at + ENTRY_HEAD).max(end).min(most);
                loop {
                    if loaded < to {
                        self.image(block, changes, loaded..to, image);
                        loaded = to;
                    }
                    let pages = image.of(block.fate);
                    let behind = before.behind(at, pages.0).max(after.behind(at, pages.1));
                    to = behind.min(most);
                    if to <= loaded {
                        break;
                    }
                }
            }
            let pages = image.of(block.fate);
            if block.fate == Fate::Born
                && before.at >= before.tail
                && let Some(more) = self.moved(block, pages.1, after)
            {
                found += more;
                continue;
            }
            let was = if before.at == at { before.next(pages.0) } else { None };
            let is = if after.at == at { after.next(pages.1) } else { None };
            found += self.came_and_went(block, was, is);
        }
        found
    }

    /// What stood at a place and what stands there now.
    pub(crate) fn came_and_went(&mut self, block: &Block, was: Option<Entry<'_>>, is: Option<Entry<'_>>) -> More {
        if let (Some(was), Some(is)) = (&was, &is)
            && was.bytes == is.bytes
        {
            return More::default();
        }
        let dead = |entry: &Option<Entry<'_>>| match entry {
            Some(entry) if entry.head.state == DEAD => entry.bytes.len() as i64,
            _ => 0,
        };
        let dead = dead(&is) - dead(&was);
        if let Some(is) = &is
            && is.head.state != DEAD
            && let Some(field) = self.wrong_entry(block.owner, &is.head, is.name, is.padding())
            && !self.came_from_split(block, is)
        {
            self.sink
                .breach(Equation::EntryFields, block.owner, is.head.ino.get(), field);
        }
        let counts = |entry: &Entry<'_>| entry.head.state == LIVE;
        let (was, is) = (was.filter(counts), is.filter(counts));
        if let Some(was) = &was {
            self.dirent(block.owner, was, -1);
        }
        if let Some(is) = &is {
            self.dirent(block.owner, is, 1);
            if block.fate == Fate::Stays {
                let keeps_key = was.is_some_and(|was| was.head.key == is.head.key && was.name == is.name);
                self.new_entry(is, keeps_key);
            }
        }
        let live = i64::from(is.is_some()) - i64::from(was.is_some());
        More { live, dead }
    }

    /// Whether an entry of a leaf that is born stood, as it is, in a leaf of the directory that dies: then what is wrong with it
    /// was so before (S-17.7). Asked of wrong ones only.
    fn came_from_split(&self, block: &Block, entry: &Entry<'_>) -> bool {
        let dies = |other: &Block| {
            other.kind == Kind::DirLeaf && other.owner == block.owner && matches!(other.fate, Fate::Dies | Fate::Passes)
        };
        let leaves = (0..self.txn.count()).filter(|index| dies(&self.txn.block(*index)));
        block.fate == Fate::Born && leaves.into_iter().any(|index| self.had(index, entry.bytes))
    }

    /// Whether a leaf had an entry of these bytes before the transaction.
    fn had(&self, index: usize, entry: &[u8]) -> bool {
        let mut page = [0; PAGE];
        self.txn.load(index, 0, &mut page);
        for change in self.txn.changes().iter().rev().filter(|change| change.block == index) {
            let room = page.get_mut(change.offset..change.offset + change.old.len());
            if let Some(room) = room.filter(|_| change.nature == Nature::Bytes) {
                room.copy_from_slice(change.old);
            }
        }
        let mut cursor = Cursor::new(tail(&page));
        core::iter::from_fn(|| cursor.next(&page)).any(|had| had.bytes == entry)
    }

    fn dirent(&mut self, dir: u64, entry: &Entry<'_>, times: i64) {
        let child = entry.head.ino.get();
        self.sink.pair(Equation::Links, child, 0, -times);
        self.sink.pair(Equation::NamesTold, child, dir, times);
        if self.txn.operations().is_some() {
            self.sink.pair(Equation::NamesDone, child, dir, times);
        }
        if entry.head.kind == inode::DIR {
            self.sink.pair(Equation::Subdirectories, dir, 0, -times);
            self.sink.pair(Equation::Parents, child, dir, -times);
        }
    }

    /// What a new entry says of itself. Inodes that the transaction did not touch are not known; an entry that only moved
    /// within its leaf is looked at, too. One that `keeps_key` has the name and the key that stood there before.
    fn new_entry(&mut self, entry: &Entry<'_>, keeps_key: bool) {
        if !keeps_key && self.sink.wants(Equation::Keys) {
            let key = name_key(self.name_seed, entry.name);
            let told = entry.head.key.get() & !(TWINS - 1);
            self.equal(Equation::Keys, entry.head.ino.get(), told, key);
        }
        let child = entry.head.ino.get();
        if self.sink.wants(Equation::Kinds)
            && let Some(is) = self.inode_now(child, |inode| match inode.state.get() {
                inode::LIVE => u64::from(kind(inode)),
                _ => u64::MAX,
            })
        {
            self.equal(Equation::Kinds, child, u64::from(entry.head.kind), is);
        }
    }
}

#[cfg(test)]
mod tests;
