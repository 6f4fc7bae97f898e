//! On a valid pool the walk finds nothing, and the view shows what is there.

use crate::builder::Builder;
use crate::sample;
use keepfs_audit::read::View;
use keepfs_audit::{Options, walk};

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
