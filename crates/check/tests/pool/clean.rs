//! On a valid pool the walk finds nothing, and the view shows what is there.

use crate::builder::{Builder, SEED, fill_leaf, node};
use crate::sample;
use keepfs_check::read::{ReadError, View};
use keepfs_check::{Finding, Options, walk};
use keepfs_format::bitmap::{self, TOTAL_INODES, TOTAL_PAGES, TOTAL_SHARES};
use keepfs_format::plog::Record;
use keepfs_format::superblock::INCOMPAT_STRIPES;
use keepfs_format::{Kind, dir};

const DATA: Options = Options {
    data: true,
    limit: 1000,
};

#[test]
fn checkpoint_alone() {
    let report = walk(&sample::pool().build().bytes, &DATA);
    assert_eq!(report.findings, []);
    assert!(report.is_sound());
    assert_eq!((report.generation, report.log_groups, report.seq), (3, 0, 100));
    let c = report.counts;
    assert_eq!(
        (c.inodes, c.directories, c.files, c.orphans, c.entries),
        (13, 3, 8, 2, 12)
    );
    assert_eq!((c.data_pages, c.shares, c.xattrs, c.staged_pages), (7, 1, 3, 0));
}

/// S-2.10, S-7.5: totals are the sum of all stripes, of which some have less than nothing; an old pool has the first one alone.
#[test]
fn stripes() {
    let pool = |incompat: u64| {
        let mut b = sample::pool_with_log();
        b.sb.incompat = incompat.into();
        for (number, stripe, words) in [(0, 1, [9_u64.wrapping_neg(), 4]), (7, 63, [9, 4_u64.wrapping_neg()])] {
            for (which, word) in [TOTAL_PAGES, TOTAL_SHARES].into_iter().zip(words) {
                let at = bitmap::in_stripe(stripe, which);
                b.block(bitmap::totals(number))[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        b
    };
    let found = |b: Builder| walk(&b.build().bytes, &DATA).findings;
    let old = found(pool(0));
    let reserved = |f: &Finding| matches!(f, Finding::Reserved { offset: 96, .. });
    let beyond = |f: &Finding| matches!(f, Finding::MapEntry { field: "index", .. });
    assert!(old.iter().any(reserved) && old.iter().any(beyond), "{old:?}");
    assert_eq!(found(pool(INCOMPAT_STRIPES)), []);
    let mut b = pool(INCOMPAT_STRIPES);
    b.block(bitmap::totals(7))[64] = 1;
    let id = bitmap::totals(7).into();
    assert_eq!(found(b), [Finding::Reserved { id, offset: 64 }]);
    let mut b = pool(INCOMPAT_STRIPES);
    b.block(bitmap::totals(7))[bitmap::in_stripe(20, TOTAL_INODES)] = 1;
    let wrong = found(b);
    assert!(
        matches!(
            wrong[..],
            [Finding::Total {
                field: "inodes in use",
                ..
            }]
        ),
        "{wrong:?}"
    );
}

/// S-9.4: the log's groups are part of the state.
#[test]
fn with_log() {
    let report = walk(&sample::pool_with_log().build().bytes, &DATA);
    assert_eq!(report.findings, []);
    assert_eq!((report.log_groups, report.seq), (2, 102));
    let c = report.counts;
    assert_eq!(
        (c.inodes, c.orphans, c.entries, c.data_pages, c.shares, c.staged_pages),
        (13, 1, 13, 7, 2, 1)
    );
}

#[test]
fn empty_pool() {
    let report = walk(&Builder::new().build().bytes, &DATA);
    assert_eq!(report.findings, []);
    assert_eq!(report.counts.inodes, 0);
}

#[test]
fn one_copy_and_high_maps() {
    let mut b = sample::pool_with_log();
    b.sb.meta_copies = 1.into();
    b.heights
        .extend([(keepfs_format::Space::Inodes, 3), (keepfs_format::Space::Homes, 2)]);
    assert_eq!(walk(&b.build().bytes, &DATA).findings, []);
}

/// S-2.1: a pool smaller than its device has its slots where N says.
#[test]
fn pool_smaller_than_device() {
    let mut bytes = sample::pool().build().bytes;
    bytes.extend_from_slice(&[0; 10 * 4096]);
    assert_eq!(walk(&bytes, &DATA).findings, []);
}

/// S-6.4, S-6.5: an index under an index, whose slots all hold one leaf.
#[test]
fn nested_index() {
    let mut b = sample::pool();
    let (upper, lower, leaf) = (60, 61, 300);
    let slot = dir::slot_of(dir::name_key(SEED, b"deep"), 0);
    b.new_inode(40, sample::DIR, |i| {
        (i.nlink, i.parent, i.entries, i.root) = (2.into(), 9.into(), 1.into(), node(upper).0.into());
    });
    b.new_inode(41, sample::FILE, |_| {});
    let mut children = [node(lower).0; 256];
    // Beside the slot stand leaves of 1, 2, 4, ... 128 slots.
    for depth in 1..=8u8 {
        let slots = 1usize << (8 - depth);
        let first = ((slot / slots) ^ 1) * slots;
        children[first..first + slots].fill(node(leaf + u64::from(depth)).0);
        fill_leaf(b.node(leaf + u64::from(depth), Kind::DirLeaf, depth, 40), &[]);
    }
    let root = b.node(upper, Kind::DirIndex, 0, 40);
    for (at, child) in children.iter().enumerate() {
        root[dir::child_offset(at)..][..8].copy_from_slice(&child.to_le_bytes());
    }
    let below = b.node(lower, Kind::DirIndex, 1, 40);
    for at in 0..256 {
        below[dir::child_offset(at)..][..8].copy_from_slice(&node(62).0.to_le_bytes());
    }
    fill_leaf(b.node(62, Kind::DirLeaf, 0, 40), &[("deep", 41, 8, true)]);
    b.inode(9, |i| {
        (i.nlink, i.entries, i.root) = (3.into(), 1.into(), node(63).0.into())
    });
    fill_leaf(b.node(63, Kind::DirLeaf, 0, 9), &[("nested", 40, 4, true)]);
    b.sb.meta_copies = 1.into();
    let built = b.build();
    assert_eq!(walk(&built.bytes, &DATA).findings, []);
    assert_eq!(
        View::open(&built.bytes)
            .unwrap()
            .resolve(b"dir/sub/nested/deep")
            .unwrap(),
        41
    );
}

/// What `keepfs check --json` shows of a finding.
#[test]
fn json() {
    let mut built = sample::pool().build();
    built.page(768)[700] ^= 3;
    let json = serde_json::to_value(walk(&built.bytes, &DATA)).unwrap();
    let text = walk(&built.bytes, &DATA).to_string();
    assert!(
        text.starts_with("warning: superblock slot 3 ") && text.contains(" [superblock-copy]\n"),
        "{text}"
    );
    let finding = &json["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["severity"]),
        (&"superblock-copy".into(), &"warning".into())
    );
    assert_eq!((&finding["slot"], &finding["page"]), (&3.into(), &768.into()));
    assert!(finding["text"].as_str().unwrap().contains("slot 3"));
    assert_eq!(json["counts"]["directories"], 3);
}

/// Every kind of finding is expected by some test, and no two share a code.
#[test]
fn every_finding_has_a_test() {
    let tests = [
        include_str!("adrift.rs"),
        include_str!("broken.rs"),
        include_str!("carried.rs"),
        include_str!("log.rs"),
        include_str!("hole.rs"),
        include_str!("hostile.rs"),
        include_str!("salvage.rs"),
    ]
    .concat();
    let table = include_str!("../../src/finding.rs")
        .lines()
        .skip_while(|line| !line.starts_with("findings! {"));
    let names: Vec<&str> = table
        .filter(|line| line.contains("} = \""))
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert_eq!(names.len(), Finding::CODES.len());
    let untested: Vec<_> = names
        .iter()
        .filter(|name| !tests.contains(&format!("Finding::{name} {{")))
        .collect();
    assert_eq!(untested, [] as [&&str; 0]);
    let distinct: std::collections::BTreeSet<_> = Finding::CODES.iter().collect();
    assert_eq!(distinct.len(), Finding::CODES.len());
}

#[test]
fn view_shows_what_the_log_made() {
    let built = sample::pool_with_log().build();
    let mut view = View::open(&built.bytes).unwrap();
    assert_eq!(view.superblock_view().label, "test");
    let names = |view: &mut View<'_>, ino| {
        let list = view.list(ino).unwrap().into_iter();
        let mut names: Vec<String> = list.map(|entry| entry.name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&mut view, 1).len(), 9);
    assert_eq!(names(&mut view, 2), ["file", "late", "sub"]);
    assert_eq!(view.resolve(b"/dir/sub/new").unwrap(), 17);
    let inode = view.inode_view(17).unwrap();
    assert_eq!((inode.size, inode.direct[0].page, inode.staged), (8196, 610, vec![2]));
    assert!(view.inode(11).is_err());
    assert_eq!(view.groups().len(), 2);
    assert!(view.groups()[0].to_string().contains("create inode 17 born 1"));
    assert!(!view.lookup(crate::builder::node(sample::GONE)).unwrap().live);
    assert_eq!(view.findings(), []);
}

/// S-8.8: a staged page is read before what the block map names.
#[test]
fn view_reads_files() {
    let mut b = sample::pool_with_log();
    let base_crc = keepfs_codes::crc32c::of(&b.data[&601][..]);
    b.group(&[Record::Tail {
        ino: 4,
        index: 1,
        version: 1,
        base: 601,
        base_crc,
        offset: 0,
        bytes: vec![9; 4],
    }]);
    let mut built = b.build();
    assert_eq!(walk(&built.bytes, &DATA).findings, []);
    let mut view = View::open(&built.bytes).unwrap();
    let mut first = |ino, index| view.page(ino, index).unwrap()[..6].to_vec();
    assert_eq!(first(3, 0), *b"hello\0");
    assert_eq!(first(4, 0), [1; 6]);
    assert_eq!(first(4, 1), [9, 9, 9, 9, 2, 2]);
    assert_eq!(first(5, 0), [3; 6]);
    assert_eq!(
        (first(5, 1), first(5, 3), first(5, 254)),
        (vec![0; 6], vec![0; 6], vec![4; 6])
    );
    assert_eq!(first(5, u64::MAX), [0; 6]);
    assert_eq!(first(17, 2), *b"tail\0\0");
    assert_eq!(view.xattrs(3).unwrap(), [(0, b"a".to_vec(), b"1".to_vec())]);
    let big = view.xattrs(10).unwrap();
    assert_eq!((big.len(), big[0].2.len(), big[1].0), (2, 5000, 3));
    built.page(600)[0] ^= 1;
    let mut view = View::open(&built.bytes).unwrap();
    assert_eq!(view.page(4, 0), Err(ReadError::Data { ino: 4, index: 0 }));
    assert_eq!(view.page(11, 0), Err(ReadError::NotLive(11)));
}
