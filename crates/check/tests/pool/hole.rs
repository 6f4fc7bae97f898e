//! Pending holes (S-5.8): what stands in them is nobody's data, and whoever has one is on the hidden list.

use crate::builder::Builder;
use crate::sample;
use keepfs_check::read::View;
use keepfs_check::{Finding, Options, walk};
use keepfs_format::Space;
use keepfs_format::plog::Record;

const DATA: Options = Options {
    data: true,
    limit: 1000,
};
/// A file with a tree: page 0 written (page 602), 3 unwritten, 254 written.
const FILE: u64 = 5;

/// The sample whose file 5 has a pending hole of these pages.
fn pending(from: u64, to: u64) -> Builder {
    let mut b = sample::pool();
    b.inode(FILE, |i| {
        i.body_area[..8].copy_from_slice(&from.to_le_bytes());
        i.body_area[8..16].copy_from_slice(&to.to_le_bytes());
    });
    b.flip(Space::Orphans, FILE);
    b
}

fn findings(b: Builder) -> Vec<Finding> {
    walk(&b.build().bytes, &DATA).findings
}

#[test]
fn a_listed_one_is_clean() {
    assert_eq!(findings(pending(0, 200)), []);
    assert_eq!(findings(pending(200, 1 << 51)), []);
}

#[test]
fn an_unlisted_one_is_told() {
    let mut b = pending(0, 200);
    b.flip(Space::Orphans, FILE);
    assert_eq!(findings(b), [Finding::HoleUnlisted { ino: FILE }]);
}

#[test]
fn fields() {
    let wrong = |field| [Finding::Hole { ino: FILE, field }];
    assert_eq!(findings(pending(200, 200)), wrong("range"));
    assert_eq!(findings(pending(9, 3)), wrong("range"));
    assert_eq!(findings(pending(9, (1 << 51) + 1)), wrong("end"));
    let mut b = pending(0, 200);
    b.inode(FILE, |i| i.body_area[16] = 1);
    assert_eq!(findings(b), wrong("byte behind it"));
    let mut b = pending(0, 200);
    // A symbolic link has none; that it is one now, its name and its size are told too.
    b.inode(FILE, |i| i.mode = 0o120_777.into());
    assert!(findings(b).contains(&wrong("owner")[0]));
    let mut b = sample::pool();
    b.inode(16, |i| i.body_area[7] = 1);
    let field = "byte in the area of an empty body";
    assert_eq!(findings(b), [Finding::Inode { ino: 16, field }]);
}

/// A crash may come before the data of pages that are in a hole by then.
#[test]
fn its_pages_are_not_read() {
    let break_page = |b: Builder| {
        let mut built = b.build();
        built.page(602)[0] ^= 1;
        let read = View::open(&built.bytes).expect("open").page(FILE, 0);
        (
            walk(&built.bytes, &DATA).findings,
            read.is_ok_and(|bytes| *bytes == [0; 4096]),
        )
    };
    let bad = Finding::DataBad {
        ino: FILE,
        index: 0,
        page: 602,
    };
    assert_eq!(break_page(pending(1, 200)), (vec![bad], false));
    assert_eq!(break_page(pending(0, 200)), (vec![], true));
}

#[test]
fn nothing_is_staged_in_it() {
    let tail = |index| {
        vec![Record::Tail {
            ino: FILE,
            index,
            version: 1,
            base: 0,
            base_crc: 0,
            offset: 0,
            bytes: b"x".to_vec(),
        }]
    };
    let with = |index| {
        let mut b = pending(0, 200);
        b.group(&tail(index));
        findings(b)
    };
    let field = "index (it is in a pending hole)";
    let (ino, index) = (FILE, 199);
    assert_eq!(with(199), [Finding::Staged { ino, index, field }]);
    assert_eq!(with(200), []);
}

#[test]
fn the_view_shows_it() {
    let built = pending(7, 9).build();
    let mut view = View::open(&built.bytes).expect("open");
    assert_eq!(view.inode_view(FILE).expect("inode").hole, Some((7, 9)));
    assert_eq!(view.inode_view(4).expect("inode").hole, None);
}
