//! Leaves that are looked at in parts: what came and went is what two walks over all entries tell (S-6.1, S-6.2).

use super::*;
use crate::tests::Made;
use crate::{Equations, Fate};
use keepfs_format::dir::{DEAD, EntryHead};
use keepfs_format::plog::Record;
use keepfs_format::{FromBytes, IntoBytes, Kind, MetaId, Page, Space};

/// Inode of the directory.
const DIR: u64 = 7;

/// A leaf that is changed at random.
struct Leaf {
    made: Made,
    block: usize,
    seed: u64,
    next_ino: u64,
}

impl Leaf {
    fn new(seed: u64) -> Leaf {
        let mut made = Made::default();
        let block = made.block(MetaId::new(Space::Nodes, 3), Kind::DirLeaf, DIR, Fate::Stays);
        let mut leaf = Leaf {
            made,
            block,
            seed,
            next_ino: 100,
        };
        leaf.head(FIRST, 0);
        for _ in 0..leaf.random(90) {
            leaf.add();
        }
        // What was there before is no change.
        leaf.made.forget_changes();
        leaf
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    fn page(&self) -> &Page {
        self.made.bytes(self.block)
    }

    /// Places and sizes of all entries.
    fn places(&self) -> Vec<(usize, usize)> {
        let (page, mut places) = (self.page(), Vec::new());
        let mut cursor = Cursor::new(tail(page));
        while cursor.at < cursor.tail {
            let (at, size) = (cursor.at, cursor.next(page).map_or(PAGE, |e| e.bytes.len()));
            places.push((at, size));
        }
        places
    }

    /// Inodes of the live entries.
    fn live(&self) -> Vec<u64> {
        let page = self.page();
        let live = |(at, size): (usize, usize)| {
            let (head, _) = EntryHead::read_from_prefix(&page[at..at + size]).ok()?;
            (head.state == LIVE).then_some(head.ino.get())
        };
        self.places().into_iter().filter_map(live).collect()
    }

    fn head(&mut self, tail: usize, live: usize) {
        let head = LeafHead {
            tail: (tail as u16).into(),
            live: (live as u16).into(),
            ..LeafHead::default()
        };
        self.made.put(self.block, HEADER, head.as_bytes());
    }

    fn recount(&mut self, tail: usize) {
        self.head(tail, 0);
        let live = self.live().len();
        self.head(tail, live);
    }

    fn entry(&mut self, at: usize, name_len: usize) {
        self.next_ino += 1;
        let head = EntryHead {
            ino: self.next_ino.into(),
            name_len: name_len as u8,
            state: LIVE,
            kind: 8,
            ..EntryHead::default()
        };
        let mut bytes = vec![b'n'; entry_size(name_len)];
        bytes[..ENTRY_HEAD].copy_from_slice(head.as_bytes());
        self.made.put(self.block, at, &bytes);
    }

    fn add(&mut self) {
        let (at, name_len) = (tail(self.page()), 1 + self.random(60));
        if at + entry_size(name_len) <= PAGE {
            self.entry(at, name_len);
            self.recount(at + entry_size(name_len));
        }
    }

    /// One of the ways in which a directory changes a leaf.
    fn change(&mut self) {
        let (places, end) = (self.places(), tail(self.page()));
        let which = self.random(places.len().max(1));
        let Some((at, size)) = places.get(which).copied() else {
            return self.add();
        };
        match self.random(6) {
            0 | 1 => self.add(),
            2 => self
                .made
                .put(self.block, at + core::mem::offset_of!(EntryHead, state), &[DEAD]),
            3 => self.entry(at, size - ENTRY_HEAD - 3),
            4 => {
                let (last, _) = places[places.len() - 1];
                return self.recount(last);
            }
            _ => {
                // Packed: this entry goes, those behind it move.
                let behind = self.page()[at + size..end].to_vec();
                self.made.put(self.block, at, &behind);
                return self.recount(end - size);
            }
        }
        self.recount(tail(self.page()));
    }
}

#[test]
fn parts_tell_what_the_whole_leaf_does() {
    let among = Equations::NONE.with(Equation::NamesTold).with(Equation::LeafLive);
    let auditor = crate::tests::auditor(among);
    let mut unbalanced = 0;
    for seed in 0..3000 {
        let mut leaf = Leaf::new(seed);
        let before = leaf.live();
        for _ in 0..=leaf.random(5) {
            leaf.change();
        }
        let after = leaf.live();
        let link = |ino: &u64| Record::Link { ino: *ino, dir: DIR };
        let unlink = |ino: &u64| Record::Unlink {
            ino: *ino,
            dir: DIR,
            nlink: 0,
            born: 1,
        };
        let came = after.iter().filter(|ino| !before.contains(ino)).map(link);
        let went = before.iter().filter(|ino| !after.contains(ino)).map(unlink);
        leaf.made.records = came.chain(went).collect();
        assert_eq!(leaf.made.judge(&auditor, among), [], "seed {seed}");
        if leaf.made.records.pop().is_some() {
            unbalanced += 1;
            let found = leaf.made.judge(&auditor, among);
            assert_eq!(found.len(), 1, "seed {seed}");
            assert_eq!((found[0].0, found[0].1.len()), (Equation::NamesTold, 1), "seed {seed}");
        }
    }
    assert!(unbalanced > 2000, "{unbalanced}");
}

/// E-41: entries end at the tail; where they did not before, it is nobody's fault.
#[test]
fn entries_end_at_the_tail() {
    let among = Equations::NONE.with(Equation::NodeFields);
    let auditor = crate::tests::auditor(among);
    let mut leaf = Leaf::new(5);
    let (end, live) = (tail(leaf.page()), leaf.live().len());
    for (more, wrong) in [(8, true), (0, false), (4, true)] {
        leaf.head(end + more, live);
        assert_eq!(
            leaf.made.judge(&auditor, among).len(),
            usize::from(wrong),
            "{more} bytes more"
        );
    }
    leaf.made.forget_changes();
    leaf.entry(end + 4, 9);
    leaf.head(end + 4 + entry_size(9), live + 1);
    assert_eq!(leaf.made.judge(&auditor, among), []);
}
