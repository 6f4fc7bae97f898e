//! The pool that is broken in these tests: one of everything, and a log with two groups over it.

use crate::builder::{Builder, attr, fill_leaf, fill_xattr, node};
use keepfs_format::bitmap;
use keepfs_format::blockmap::{self, Child, PageEntry};
use keepfs_format::dir;
use keepfs_format::inode::{BODY_DIRECT, BODY_INLINE, BODY_TREE, DEAD, XATTR_CHAIN};
use keepfs_format::plog::{Record, Run};
use keepfs_format::{IntoBytes, Kind, Space};

pub const DIR: u32 = 0o40755;
pub const FILE: u32 = 0o100_644;

/// Nodes of the sample.
pub const INDEX: u64 = 0;
pub const LEAF_LOW: u64 = 1;
pub const LEAF_HIGH: u64 = 2;
pub const LEAF_DIR: u64 = 3;
pub const TREE_ROOT: u64 = 4;
pub const TREE_A: u64 = 5;
pub const TREE_B: u64 = 6;
pub const XATTR_A: u64 = 7;
pub const XATTR_B: u64 = 200;
/// Dead, of generation 3.
pub const GONE: u64 = 9;
/// Born in the log.
pub const LEAF_BORN: u64 = 10;

const ROOT: &[(&str, u64, u8, bool)] = &[
    ("dir", 2, 4, true),
    ("inline", 3, 8, true),
    ("hard", 3, 8, true),
    ("direct", 4, 8, true),
    ("tree", 5, 8, true),
    ("sym", 6, 10, true),
    ("fifo", 7, 1, true),
    ("clone", 8, 8, true),
    ("shrinking", 13, 8, true),
];
pub const IN_DIR: &[(&str, u64, u8, bool)] = &[
    ("sub", 9, 4, true),
    ("gone", 12, 8, false),
    ("file", 10, 8, true),
    ("late", 16, 8, true),
];

/// The checkpoint, without log.
pub fn pool() -> Builder {
    let mut b = Builder::new();
    directories(&mut b);
    files(&mut b);
    attributes(&mut b);
    // A deleted inode keeps its version; a deleted node its generation.
    b.new_inode(12, FILE, |i| i.state = DEAD.into());
    b.flip(Space::InodeNumbers, 12);
    b.total(bitmap::TOTAL_INODES, -1);
    b.dead.insert(GONE, 3);
    b
}

fn directories(b: &mut Builder) {
    b.new_inode(1, DIR, |i| {
        (i.nlink, i.parent, i.entries) = (3.into(), 1.into(), (ROOT.len() as u64).into());
        i.root = node(INDEX).0.into();
    });
    b.new_inode(2, DIR, |i| {
        (i.nlink, i.parent, i.entries) = (3.into(), 1.into(), 3.into());
        i.root = node(LEAF_DIR).0.into();
    });
    b.new_inode(9, DIR, |i| (i.nlink, i.parent) = (2.into(), 2.into()));
    let index = b.node(INDEX, Kind::DirIndex, 0, 1);
    for slot in 0..256 {
        let leaf = if slot < 128 { LEAF_LOW } else { LEAF_HIGH };
        let at = dir::child_offset(slot);
        index[at..at + 8].copy_from_slice(&node(leaf).0.to_le_bytes());
    }
    let low =
        |entry: &&(&str, u64, u8, bool)| dir::slot_of(dir::name_key(crate::builder::SEED, entry.0.as_bytes()), 0) < 128;
    let (lower, upper): (Vec<_>, Vec<_>) = ROOT.iter().partition(low);
    fill_leaf(
        b.node(LEAF_LOW, Kind::DirLeaf, 1, 1),
        &lower.into_iter().copied().collect::<Vec<_>>(),
    );
    fill_leaf(
        b.node(LEAF_HIGH, Kind::DirLeaf, 1, 1),
        &upper.into_iter().copied().collect::<Vec<_>>(),
    );
    fill_leaf(b.node(LEAF_DIR, Kind::DirLeaf, 0, 2), IN_DIR);
}

fn files(b: &mut Builder) {
    b.new_inode(3, FILE, |i| {
        (i.nlink, i.body, i.size) = (2.into(), BODY_INLINE, 5.into());
        i.body_area[..5].copy_from_slice(b"hello");
        let attr = attr(0, "a", b"1");
        i.xattr = (attr.len() as u16).into();
        i.xattr_area[..attr.len()].copy_from_slice(&attr);
    });
    let (p0, p1) = (b.data(600, 1, 4096), b.data(601, 2, 904));
    b.new_inode(4, FILE, |i| {
        (i.body, i.size, i.pages) = (BODY_DIRECT, 5000.into(), 2.into());
        entries(&mut i.body_area, &[p0, p1]);
    });
    tree(b);
    b.new_inode(6, 0o120_777, |i| {
        (i.body, i.size) = (BODY_INLINE, 6.into());
        i.body_area[..6].copy_from_slice(b"direct");
    });
    b.new_inode(7, 0o10644, |_| {});
    b.new_inode(8, FILE, |i| {
        (i.body, i.size, i.pages) = (BODY_DIRECT, 4096.into(), 1.into());
        entries(&mut i.body_area, &[p0]);
    });
    b.share(600, 1);
    let orphan = b.data(605, 5, 4096);
    b.new_inode(11, FILE, |i| {
        (i.nlink, i.body, i.size, i.pages) = (0.into(), BODY_DIRECT, 4096.into(), 1.into());
        entries(&mut i.body_area, &[orphan]);
    });
    let beyond = b.data(606, 6, 4096);
    b.new_inode(13, FILE, |i| {
        (i.body, i.pages) = (BODY_DIRECT, 1.into());
        entries(&mut i.body_area, &[beyond]);
    });
    b.flip(Space::Orphans, 11);
    b.flip(Space::Orphans, 13);
    b.new_inode(16, FILE, |i| i.size = 1.into());
}

fn tree(b: &mut Builder) {
    let (first, last) = (b.data(602, 3, 4096), b.data(604, 4, 100));
    b.use_page(603);
    b.new_inode(5, FILE, |i| {
        (i.body, i.height, i.pages) = (BODY_TREE, 2, 3.into());
        i.size = (254 * 4096 + 100).into();
        i.root = node(TREE_ROOT).0.into();
    });
    let root = b.node(TREE_ROOT, Kind::BlockMap, 2, 5);
    for (slot, index) in [TREE_A, TREE_B].into_iter().enumerate() {
        let child = Child {
            id: node(index).0.into(),
            generation: 1.into(),
            reserved: 0.into(),
        };
        let at = blockmap::entry_offset(slot as u64);
        root[at..at + 16].copy_from_slice(child.as_bytes());
    }
    let unwritten = PageEntry::new(603, blockmap::UNWRITTEN, 0, 1);
    let a = b.node(TREE_A, Kind::BlockMap, 1, 5);
    a[32..48].copy_from_slice(first.as_bytes());
    a[80..96].copy_from_slice(unwritten.as_bytes());
    b.node(TREE_B, Kind::BlockMap, 1, 5)[32..48].copy_from_slice(last.as_bytes());
}

fn attributes(b: &mut Builder) {
    b.new_inode(10, FILE, |i| {
        (i.size, i.xattr, i.xattrs) = (10_000.into(), XATTR_CHAIN.into(), node(XATTR_A).0.into());
    });
    let mut list = attr(0, "big", &[7; 5000]);
    list.extend(attr(3, "", &[1; 20]));
    let (first, second) = list.split_at(4048);
    fill_xattr(b.node(XATTR_A, Kind::Xattr, 0, 10), node(XATTR_B).0, first);
    fill_xattr(b.node(XATTR_B, Kind::Xattr, 1, 10), 0, second);
}

/// Page entries into a body.
pub fn entries(area: &mut [u8], list: &[PageEntry]) {
    for (at, entry) in list.iter().enumerate() {
        area[at * 16..at * 16 + 16].copy_from_slice(entry.as_bytes());
    }
}

fn one(start: u64) -> Run {
    Run { start, count: 1 }
}

/// The pool with a log: a file is made in an empty directory, with a data page, a shared page and a staged page; then
/// an orphan is reclaimed and a node number lives again.
pub fn pool_with_log() -> Builder {
    let mut b = pool();
    made(&mut b);
    reclaimed(&mut b);
    b
}

/// Records of the first group, updates aside.
pub fn made_records(crc: u32, shared: u32) -> Vec<Record> {
    vec![
        Record::Birth {
            id: node(LEAF_BORN),
            generation: 1,
            kind: Kind::DirLeaf as u8,
            level: 0,
            owner: 9,
        },
        Record::Alloc {
            space: Space::InodeNumbers,
            run: one(17),
        },
        Record::Create { ino: 17, born: 1 },
        Record::Link { ino: 17, dir: 9 },
        Record::Alloc {
            space: Space::Pages,
            run: one(610),
        },
        Record::MapEntry {
            ino: 17,
            index: 0,
            page: 610,
            count: 1,
            version: 1,
            last_len: 4096,
            crcs: vec![crc],
        },
        Record::Ref {
            run: one(601),
            delta: 1,
        },
        Record::MapEntry {
            ino: 17,
            index: 1,
            page: 601,
            count: 1,
            version: 1,
            last_len: 4096,
            crcs: vec![shared],
        },
        Record::Tail {
            ino: 17,
            index: 2,
            version: 2,
            base: 0,
            base_crc: 0,
            offset: 0,
            bytes: b"tail".to_vec(),
        },
    ]
}

fn made(b: &mut Builder) {
    let page = b.data_unaccounted(610, 8, 4096);
    let shared = PageEntry::new(601, blockmap::WRITTEN, keepfs_codes::crc32c::of(&b.data[&601][..]), 1);
    let mut records = made_records(page.crc.get(), shared.crc.get());
    records.extend(b.logged(|b| {
        fill_leaf(b.node(LEAF_BORN, Kind::DirLeaf, 0, 9), &[("new", 17, 8, true)]);
        b.inode(9, |i| (i.root, i.entries) = (node(LEAF_BORN).0.into(), 1.into()));
        b.new_inode(17, FILE, |i| {
            (i.body, i.size, i.pages) = (BODY_DIRECT, (2 * 4096 + 4).into(), 2.into());
            entries(&mut i.body_area, &[page, shared]);
        });
    }));
    b.group(&records);
}

fn reclaimed(b: &mut Builder) {
    let mut records = vec![
        Record::Free {
            space: Space::Pages,
            run: one(605),
        },
        Record::Free {
            space: Space::InodeNumbers,
            run: one(11),
        },
        Record::Free {
            space: Space::Orphans,
            run: one(11),
        },
        Record::Birth {
            id: node(GONE),
            generation: 4,
            kind: Kind::Xattr as u8,
            level: 0,
            owner: 3,
        },
    ];
    records.extend(b.logged(|b| {
        b.inode(11, |i| i.state = DEAD.into());
        b.inode(3, |i| (i.xattr, i.xattrs) = (XATTR_CHAIN.into(), node(GONE).0.into()));
        let page = b.node(GONE, Kind::Xattr, 0, 3);
        page[24] = 4;
        fill_xattr(page, 0, &attr(0, "a", b"1"));
    }));
    b.group(&records);
}
