//! Directories of many entries: split, packing, cookies that stay, shrinking to nothing (S-6).

use super::*;
use keepfs_vfs::{Direct, Errno};
use std::collections::HashSet;

/// Entries of the large directory.
const MANY: usize = 100_000;

fn name(i: usize) -> String {
    format!("file-{i:07}")
}

/// The names from behind `cookie`, at most `most`, and the last cookie.
fn list(vfs: &dyn Vfs, dir: Ino, mut cookie: u64, most: usize) -> (Vec<String>, u64) {
    let mut names = Vec::new();
    vfs.readdir(dir, cookie, &mut |entry| {
        if names.len() == most {
            return false;
        }
        assert!(entry.cookie > cookie, "cookies ascend");
        cookie = entry.cookie;
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    })
    .expect("readdir");
    (names, cookie)
}

/// As on ext4 (M-6).
#[test]
fn nothing_is_made_in_a_removed_directory() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let gone = make(vfs, Ino::ROOT, "gone", FileKind::Dir).expect("mkdir");
    // As one that is open.
    vfs.lookup(Ino::ROOT, b"gone").expect("lookup");
    vfs.rmdir(Ino::ROOT, b"gone").expect("rmdir");
    assert_eq!(vfs.tmpfile(gone, &new(FileKind::File)).map(drop), Err(Errno::EPERM));
    for kind in [FileKind::File, FileKind::Dir, FileKind::Fifo] {
        assert_eq!(make(vfs, gone, "name", kind), Err(Errno::ENOENT));
    }
    assert_eq!(
        vfs.symlink(gone, b"name", b"target", &new(FileKind::Symlink)).map(drop),
        Err(Errno::ENOENT)
    );
}

/// S-6.3, S-6.4, S-6.5: 10^5 entries are found, listed once each while others vanish, and leave nothing behind.
#[test]
fn a_hundred_thousand_entries() {
    let pool = Pool::new(65_536);
    let vfs: &dyn Vfs = &*pool.volume;
    let dir = make(vfs, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    let target = make(vfs, Ino::ROOT, "target", FileKind::Fifo).expect("mknod");
    // One inode with many names would be too many links: every 10,000 names another.
    let mut inos = vec![target];
    for i in 0..MANY {
        if i % 10_000 == 0 {
            inos.push(make(vfs, dir, &name(i), FileKind::Fifo).expect("mknod"));
        } else {
            let ino = *inos.last().expect("one");
            vfs.link(ino, dir, name(i).as_bytes()).expect("link");
            vfs.forget(ino, 1);
        }
    }
    assert_eq!(make(vfs, dir, &name(77), FileKind::Fifo), Err(Errno::EEXIST));
    for i in (0..MANY).step_by(97) {
        assert_eq!(find(vfs, dir, &name(i)), Ok(inos[1 + i / 10_000]));
    }
    assert_eq!(find(vfs, dir, "file-0100000"), Err(Errno::ENOENT));
    let pool = pool.reopen();
    let vfs: &dyn Vfs = &*pool.volume;
    let mut seen = HashSet::new();
    let mut cookie = 0;
    loop {
        let (names, last) = list(vfs, dir, cookie, 1000);
        if names.is_empty() {
            break;
        }
        cookie = last;
        for (i, name) in names.into_iter().enumerate() {
            // Every second one vanishes right after it was listed.
            if i % 2 == 0 && name.starts_with("file") {
                vfs.unlink(dir, name.as_bytes()).expect("unlink");
            }
            assert!(seen.insert(name), "listed twice");
        }
    }
    assert_eq!(seen.len(), MANY + 2);
    assert_eq!(vfs.rmdir(Ino::ROOT, b"dir"), Err(Errno::ENOTEMPTY));
    let (rest, _) = list(vfs, dir, 2, MANY);
    assert!(rest.len() > MANY / 3 && rest.len() < MANY);
    for name in rest {
        vfs.unlink(dir, name.as_bytes()).expect("unlink");
    }
    assert_eq!(list(vfs, dir, 0, 10).0, [".", ".."]);
    vfs.rmdir(Ino::ROOT, b"dir").expect("rmdir");
    vfs.unlink(Ino::ROOT, b"target").expect("unlink");
    vfs.syncfs().expect("sync");
    assert_eq!(pool.volume.store().totals().inodes, 1);
    assert!(pool.volume.store().totals().nodes <= 1, "only the root's leaf is left");
    pool.finish();
}

/// Names of every length, made and removed over and over, keep a directory small: dead entries are used again.
#[test]
fn churn_does_not_grow_a_directory() {
    let pool = Pool::new(8192);
    let vfs: &dyn Vfs = &*pool.volume;
    for round in 0..2000_usize {
        let name = format!("{round}").repeat(1 + round % 50);
        make(vfs, Ino::ROOT, &name, FileKind::Fifo).expect("mknod");
        if round >= 20 {
            let old = round - 20;
            vfs.unlink(Ino::ROOT, format!("{old}").repeat(1 + old % 50).as_bytes())
                .expect("unlink");
        }
    }
    assert!(pool.volume.store().totals().nodes < 12);
    pool.finish();
}

/// readdir tells what remains even if the sink stops at every entry, and takes calls back into the volume.
#[test]
fn the_sink_may_call_back_and_stop() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    for i in 0..300 {
        make(vfs, Ino::ROOT, &name(i), FileKind::Fifo).expect("mknod");
    }
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let mut got = false;
        vfs.readdir(Ino::ROOT, cookie, &mut |entry| {
            if got {
                return false;
            }
            vfs.getattr(entry.ino).expect("getattr");
            (got, cookie) = (true, entry.cookie);
            names.push(entry.name.to_vec());
            true
        })
        .expect("readdir");
        if !got {
            break;
        }
    }
    assert_eq!(names.len(), 302);
    pool.finish();
}
