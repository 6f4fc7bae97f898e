//! Transactions made by hand: what balances, what does not, and what is named.

use super::{Auditor, Block, Change, Equation, Equations, Fate, Geometry, Imbalance, Item, Key, Nature, Transaction};
use keepfs_format::bitmap::{TOTAL_PAGES, TOTALS, bit};
use keepfs_format::blockmap::{PageEntry, WRITTEN, entry_offset};
use keepfs_format::dir::child_offset;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{Header, IntoBytes, Kind, MetaId, PAGE, Space};

/// Metablock, offset, nature, old and new bytes.
type MadeChange = (usize, usize, Nature, Vec<u8>, Vec<u8>);

/// Metablocks with their bytes after the transaction, and what changed them.
#[derive(Default)]
pub(super) struct Made {
    blocks: Vec<(Block, Box<[u8; PAGE]>)>,
    changes: Vec<MadeChange>,
    pub records: Vec<Record>,
    pages_used: u64,
    ranges: Vec<(u16, u16)>,
}

impl Made {
    pub fn block(&mut self, id: MetaId, kind: Kind, owner: u64, fate: Fate) -> usize {
        let mut bytes = Box::new([0; PAGE]);
        let level = u8::from(kind == Kind::BlockMap);
        bytes[..32].copy_from_slice(Header::new(0, id, kind, level, owner, 1).as_bytes());
        self.blocks.push((Block { id, kind, owner, fate }, bytes));
        self.blocks.len() - 1
    }

    pub fn bytes(&self, block: usize) -> &[u8; PAGE] {
        &self.blocks[block].1
    }

    /// What was put so far was there before.
    pub fn forget_changes(&mut self) {
        self.changes.clear();
        self.ranges.clear();
    }

    pub fn put(&mut self, block: usize, offset: usize, new: &[u8]) {
        let at = offset..offset + new.len();
        let old = self.blocks[block].1[at.clone()].to_vec();
        self.blocks[block].1[at].copy_from_slice(new);
        self.changes.push((block, offset, Nature::Bytes, old, new.to_vec()));
        self.ranges.push((offset as u16, (offset + new.len()) as u16));
        self.ranges.sort_unstable();
    }

    pub fn flip(&mut self, space: Space, number: u64, set: bool) {
        let (id, offset, mask) = bit(space, number);
        let block = self.block(id, Kind::Bitmap, 0, Fate::Stays);
        let (old, new) = if set { (0, mask) } else { (mask, 0) };
        self.changes.push((block, offset, Nature::Bits, vec![old], vec![new]));
    }

    fn total(&mut self, offset: usize, old: u64, new: u64) {
        let block = self.block(TOTALS, Kind::Totals, 0, Fate::Stays);
        let bytes = |value: u64| value.to_le_bytes().to_vec();
        self.changes
            .push((block, offset, Nature::Bytes, bytes(old), bytes(new)));
    }

    pub fn judge(&self, auditor: &Auditor, among: Equations) -> Vec<(Equation, Vec<Item>)> {
        let found = self.imbalances(auditor, among);
        found.into_iter().map(|i| (i.equation, i.items)).collect()
    }

    pub fn imbalances(&self, auditor: &Auditor, among: Equations) -> Vec<Imbalance> {
        let changes = self.changes.iter().map(|(block, offset, nature, old, new)| Change {
            block: *block,
            offset: *offset,
            nature: *nature,
            old,
            new,
        });
        let seen = Seen {
            made: self,
            changes: changes.collect(),
        };
        auditor.judge(&seen, among)
    }
}

struct Seen<'m> {
    made: &'m Made,
    changes: Vec<Change<'m>>,
}

impl Transaction for Seen<'_> {
    fn count(&self) -> usize {
        self.made.blocks.len()
    }
    fn block(&self, index: usize) -> Block {
        self.made.blocks[index].0
    }
    fn changes(&self) -> &[Change<'_>] {
        &self.changes
    }
    fn load(&self, block: usize, offset: usize, buf: &mut [u8]) {
        buf.copy_from_slice(&self.made.blocks[block].1[offset..offset + buf.len()]);
    }
    fn bytes(&self, block: usize) -> impl Fn(usize) -> u8 {
        move |offset| self.made.blocks[block].1[offset % PAGE]
    }
    fn ranges(&self, _block: usize) -> &[(u16, u16)] {
        &self.made.ranges
    }
    fn records(&self) -> &[Record] {
        &self.made.records
    }
    fn operations(&self) -> Option<&[u8]> {
        None
    }
    fn pages_used(&self) -> u64 {
        self.made.pages_used
    }
}

pub(super) fn auditor(equations: Equations) -> Auditor {
    let fixed = vec![0..1, 100..132];
    let geometry = Geometry { pages: 1000, fixed };
    Auditor::new(
        Key::new(&core::array::from_fn(|i| i as u8)),
        [1, 2],
        geometry,
        equations,
    )
}

/// A page entry of a file whose count of pages was told (E-8 is left out), with everything that belongs to it.
fn one_page() -> Made {
    let mut made = Made {
        pages_used: 1,
        ..Made::default()
    };
    let node = made.block(MetaId::new(Space::Nodes, 3), Kind::BlockMap, 9, Fate::Stays);
    made.put(node, entry_offset(5), PageEntry::new(77, WRITTEN, 0xC4C, 1).as_bytes());
    made.flip(Space::Pages, 77, true);
    made.total(TOTAL_PAGES, 10, 11);
    made.records.push(Record::Alloc {
        space: Space::Pages,
        run: Run { start: 77, count: 1 },
    });
    made.records.push(Record::MapEntry {
        ino: 9,
        index: 5,
        page: 77,
        count: 1,
        version: 1,
        last_len: 4096,
        crcs: vec![0xC4C],
    });
    made
}

const WITHOUT_COUNTS: Equations = Equations::ALL.without(Equation::InodePages);

/// S-17.1: what belongs together balances; what one side has alone is named.
#[test]
fn one_side_alone_is_named() {
    let auditor = auditor(Equations::ALL);
    assert_eq!(one_page().judge(&auditor, WITHOUT_COUNTS), []);
    let mut other = one_page();
    other.changes.retain(|c| c.2 != Nature::Bits);
    other.flip(Space::Pages, 78, true);
    other.records[0] = Record::Alloc {
        space: Space::Pages,
        run: Run { start: 78, count: 1 },
    };
    let item = |object, times| Item {
        object,
        times,
        ..Item::default()
    };
    let expected = (Equation::PagesGained, vec![item(77, 1), item(78, -1)]);
    assert_eq!(other.judge(&auditor, WITHOUT_COUNTS), [expected]);
}

/// S-17.4: each equation can be switched off alone, in the auditor or for a transaction.
#[test]
fn an_equation_is_off_alone() {
    let mut made = one_page();
    made.pages_used = 2;
    made.total(TOTAL_PAGES, 11, 12);
    let found = |equations| -> Vec<Equation> {
        let found = made.judge(&auditor(equations), WITHOUT_COUNTS);
        found.into_iter().map(|(equation, _)| equation).collect()
    };
    assert_eq!(found(Equations::ALL), [Equation::PagesTotal, Equation::PagesUsed]);
    assert_eq!(
        found(Equations::ALL.without(Equation::PagesTotal)),
        [Equation::PagesUsed]
    );
    assert_eq!(found(Equations::NONE), []);
}

/// S-17.2: a page that comes and goes in one transaction counts in neither of E-1 and E-2; a page that only comes does.
#[test]
fn what_comes_and_goes_does_not_count() {
    let auditor = auditor(Equations::ALL);
    let mut made = Made::default();
    made.records.push(Record::Ref {
        run: Run { start: 40, count: 1 },
        delta: 1,
    });
    made.records.push(Record::Ref {
        run: Run { start: 40, count: 1 },
        delta: -1,
    });
    let (id, offset) = keepfs_format::bitmap::share(40);
    let block = made.block(id, Kind::Shares, 0, Fate::Stays);
    for (old, new) in [(1_u16, 2_u16), (2, 1)] {
        let bytes = |value: u16| value.to_le_bytes().to_vec();
        made.changes
            .push((block, offset, Nature::Bytes, bytes(old), bytes(new)));
    }
    assert_eq!(made.judge(&auditor, Equations::ALL), []);
    made.changes.pop();
    made.records.pop();
    let found = made.judge(&auditor, Equations::ALL.without(Equation::SharesTotal));
    assert_eq!(found.first().map(|(e, _)| *e), Some(Equation::PagesGained));
}

/// S-7.5: what changed in any stripe counts, be it a part of a word; a run of counts is so many pages.
#[test]
fn parts_of_words_and_runs_of_counts() {
    let auditor = auditor(Equations::NONE.with(Equation::SharesTotal).with(Equation::SharesTold));
    let mut made = Made::default();
    let (id, offset) = keepfs_format::bitmap::share(40);
    let block = made.block(id, Kind::Shares, 0, Fate::Stays);
    // 255, 3, 7 become 256, 4, 8; the last without its upper byte.
    let (old, new) = (vec![255, 0, 3, 0, 7], vec![0, 1, 4, 0, 8]);
    made.changes.push((block, offset, Nature::Bytes, old, new));
    made.records.push(Record::Ref {
        run: Run { start: 40, count: 3 },
        delta: 1,
    });
    let lacks = made.judge(&auditor, Equations::ALL);
    assert_eq!(lacks.first().map(|(e, _)| *e), Some(Equation::SharesTotal));
    let totals = made.block(keepfs_format::bitmap::totals(6), Kind::Totals, 0, Fate::Stays);
    let at = keepfs_format::bitmap::in_stripe(63, keepfs_format::bitmap::TOTAL_SHARES);
    // The first byte has 253 less, the others have 256 more.
    made.changes.push((totals, at, Nature::Bytes, vec![0xFF], vec![0x02]));
    let (old, new) = (vec![0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], vec![0xFF; 7]);
    made.changes.push((totals, at + 1, Nature::Bytes, old, new));
    assert_eq!(made.judge(&auditor, Equations::ALL), []);
}

/// S-17.3: what a dying node names is lost, and neighbouring slots of an index are one reference.
#[test]
fn a_dead_index_loses_each_child_once() {
    let auditor = auditor(Equations::NONE.with(Equation::NodeReferences));
    let mut made = Made::default();
    let index = made.block(MetaId::new(Space::Nodes, 1), Kind::DirIndex, 2, Fate::Dies);
    for slot in 0..256 {
        let child = MetaId::new(Space::Nodes, if slot < 128 { 5 } else { 6 });
        let at = child_offset(slot);
        made.blocks[index].1[at..at + 8].copy_from_slice(&child.0.to_le_bytes());
    }
    for child in [5, 6] {
        made.flip(Space::NodeNumbers, child, false);
    }
    assert_eq!(made.judge(&auditor, Equations::ALL), []);
    made.changes.pop();
    let lost = Item {
        object: 6,
        times: -1,
        ..Item::default()
    };
    assert_eq!(
        made.judge(&auditor, Equations::ALL),
        [(Equation::NodeReferences, vec![lost])]
    );
}

/// S-17.5: of a checkpoint's own transactions only the total of pages is asked.
#[test]
fn a_checkpoint_has_no_records() {
    let auditor = auditor(Equations::ALL);
    let mut made = Made::default();
    made.flip(Space::Pages, 900, true);
    made.total(TOTAL_PAGES, 10, 11);
    assert_eq!(made.judge(&auditor, Equations::OF_CHECKPOINTS), []);
    made.total(TOTAL_PAGES, 11, 12);
    let found = made.judge(&auditor, Equations::OF_CHECKPOINTS);
    assert_eq!(found.first().map(|(e, _)| *e), Some(Equation::PagesTotal));
}

/// E-34: a byte that changed and is in no range is told with its place.
#[test]
fn a_changed_byte_must_be_logged() {
    let auditor = auditor(Equations::ALL);
    let mut made = one_page();
    made.ranges = vec![(0, entry_offset(5) as u16 + 3)];
    let found = made.judge(&auditor, WITHOUT_COUNTS);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, Equation::RedoRanges);
    assert_eq!(found[0].1[0].value, entry_offset(5) as u64 + 3);
}

/// Bytes of any kind are judged without a panic: what a hostile pool holds comes here too.
#[test]
fn garbage_is_judged() {
    let auditor = auditor(Equations::ALL);
    let kinds = [Kind::Inodes, Kind::DirLeaf, Kind::DirIndex, Kind::BlockMap, Kind::Xattr];
    let mut seed = 7_u64;
    let mut byte = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    for round in 0..200 {
        for kind in kinds {
            for fate in [Fate::Stays, Fate::Born, Fate::Dies, Fate::Passes] {
                let mut made = Made::default();
                let space = if kind == Kind::Inodes {
                    Space::Inodes
                } else {
                    Space::Nodes
                };
                let block = made.block(MetaId::new(space, round), kind, 3, fate);
                made.blocks[block].1[32..].fill_with(&mut byte);
                let start = 32 + usize::from(byte()) * 15;
                let new: Vec<u8> = (0..=byte() / 2).map(|_| byte()).collect();
                made.put(block, start, &new);
                let _ = made.judge(&auditor, Equations::ALL);
            }
        }
    }
}

/// S-17.4: the names that options take.
#[test]
fn equations_are_read_as_they_are_written() {
    let some = Equations::ALL.without(Equation::Links).without(Equation::Kinds);
    for equations in [Equations::ALL, Equations::NONE, some] {
        assert_eq!(equations.to_string().parse(), Ok(equations));
    }
    assert_eq!(some.to_string(), "without:links:kinds");
    for wrong in ["", "links", "without:link", "without:"] {
        assert!(wrong.parse::<Equations>().is_err(), "{wrong:?}");
    }
}
