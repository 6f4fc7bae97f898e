//! Every difference is seen, named, and changes the hash; what must not matter does not.

use super::*;
use crate::model::Model;
use crate::ops::{Op, Session};
use keepfs_vfs::{Direct, FallocMode, Ino, WriteHow};

fn tree_of(script: &str) -> Model {
    let model = Model::default();
    let mut session = Session::new(&model);
    for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let outcome = session.run(&line.parse::<Op>().unwrap());
        assert!(!outcome.is_err(), "{line}: {outcome:?}");
    }
    drop(session);
    model
}

const BASE: &str = "
    mkdir path=d mode=755 who=22:0:0
    create path=d/f mode=644 who=22:0:0
    write path=d/f offset=0 len=9000 seed=1 kill=no
    symlink path=l target=t who=22:0:0
    mknod path=n mode=20600 rdev=259 who=22:0:0
    create path=g mode=644 who=22:0:0
";

#[test]
fn every_difference_is_seen_and_named() {
    let changes = [
        ("set_mode path=d/f mode=600", "mode 0644 and 0600"),
        ("chown path=d uid=5 gid=-", "owner 0:0 and 5:0"),
        ("write path=d/f offset=8999 len=1 seed=99 kill=no", "data"),
        ("truncate path=d/f size=9001 kill=no", "size 9000 and 9001"),
        ("set_xattr path=n name=trusted.x len=3 seed=1 how=any", "xattrs"),
        ("set_flags path=d flags=0x40", "flags 0x0 and 0x40"),
        ("link from=d/f to=h", "only in the second"),
        ("unlink path=l", "only in the first"),
        ("rename from=l to=m flags=none", "only in the second"),
    ];
    let base = snapshot(&tree_of(BASE)).unwrap();
    for (change, words) in changes {
        let changed = snapshot(&tree_of(&format!("{BASE}{change}"))).unwrap();
        let difference = diff(&base, &changed);
        assert!(difference.contains(words), "{change}: {difference}");
        assert_ne!(base.hash(), changed.hash(), "{change}");
    }
}

#[test]
fn which_names_share_an_inode_is_part_of_the_tree() {
    let pairs = |a: &str, b: &str| {
        let files = "create path=a mode=644 who=0:0:0\ncreate path=b mode=644 who=0:0:0\n";
        tree_of(&format!("{files}link from=a to={a}\nlink from=b to={b}"))
    };
    let (one, other) = (pairs("x", "y"), pairs("y", "x"));
    let (first, second) = (snapshot(&one).unwrap(), snapshot(&other).unwrap());
    assert!(diff(&first, &second).contains("/x: the same file as /a and /b"));
    assert_ne!(first.hash(), second.hash());
    assert_ne!(hash_tree(&one, Times::Ignore), hash_tree(&other, Times::Ignore));
}

#[test]
fn the_walk_hashes_as_the_snapshot_does() {
    for times in [Times::Ignore, Times::Keep] {
        let tree = tree_of(&format!("{BASE}link from=d/f to=h\nlink from=g to=d/z"));
        assert_eq!(
            hash_tree(&tree, times).unwrap(),
            snapshot_with(&tree, times).unwrap().hash()
        );
    }
}

#[test]
fn holes_and_zeros_are_the_same() {
    let with = |mode| {
        let model = Model::default();
        let new = keepfs_vfs::NewInode::by_root(0o100644);
        let f = model.mknod(Ino::ROOT, b"f", &new).unwrap().attr.ino;
        model.write(f, 200_000, &[7; 70_000], WriteHow::default()).unwrap();
        model.fallocate(f, mode, 4096, 100_000).unwrap();
        snapshot(&model).unwrap()
    };
    let (hole, allocated) = (
        with(FallocMode::PunchHole),
        with(FallocMode::ZeroRange { keep_size: false }),
    );
    assert_eq!(diff(&hole, &allocated), "");
    assert_eq!(hole, allocated);
}

#[test]
fn a_walk_gives_every_lookup_back_and_reads_no_further_than_data() {
    let tree =
        tree_of("create path=f mode=644 who=0:0:0\nwrite path=f offset=4611686018427387904 len=5 seed=1 kill=no");
    let before = tree.inode_count();
    snapshot(&tree).unwrap();
    tree.unlink(Ino::ROOT, b"f").unwrap();
    assert_eq!(tree.inode_count(), before - 1);
}

#[test]
fn zeros_at_the_end_of_a_page_are_no_content() {
    let mut page = [0; 4096];
    let mut seen = std::collections::HashSet::new();
    for last in 0..page.len() {
        page[last] = 1;
        let (mut whole, mut part) = (DataHash::default(), DataHash::default());
        whole.add(0, &page);
        part.add(0, &page[..=last]);
        assert_eq!(whole, part, "{last}");
        assert!(seen.insert(whole.to_string()), "{last}");
    }
}
