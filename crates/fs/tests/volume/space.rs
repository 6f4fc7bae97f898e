//! Full pools (promise C-7): told at write, deleting always works, overwriting never fails.

use super::*;
use keepfs_vfs::{Errno, SetAttr};

/// Fills the pool with files of `len` bytes; how many whole ones there are.
fn fill(vfs: &dyn Vfs, prefix: &str, len: usize) -> usize {
    let data = vec![3; len];
    for i in 0.. {
        let made = make(vfs, Ino::ROOT, &format!("{prefix}{i}"), FileKind::File);
        let wrote = made.and_then(|ino| vfs.write(ino, 0, &data, WriteHow::default()));
        match wrote {
            Ok(count) if count == len => {}
            Ok(_) | Err(Errno::ENOSPC) => return i,
            Err(other) => panic!("{other}"),
        }
    }
    0
}

/// C-7: fill, overwrite when full, delete, fill again.
#[test]
fn a_full_pool_takes_overwrites_and_deletes() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let first = fill(vfs, "a", 300_000);
    assert!(first > 20, "only {first} files of 73 pages fit in 4096 pages");
    let victim = find(vfs, Ino::ROOT, "a1").expect("lookup");
    for round in 0..40_u8 {
        let data = vec![round; 300_000];
        assert_eq!(
            vfs.write(victim, 0, &data, WriteHow::default()),
            Ok(300_000),
            "overwrite {round}"
        );
        assert!(read(vfs, victim, 0, 300_000) == data);
    }
    vfs.setattr(
        victim,
        &SetAttr {
            size: Some(1),
            ..SetAttr::default()
        },
    )
    .expect("truncate");
    for i in 0..=first {
        match vfs.unlink(Ino::ROOT, format!("a{i}").as_bytes()) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(other) => panic!("unlink: {other}"),
        }
    }
    let second = fill(vfs, "b", 300_000);
    assert!(second + 2 >= first, "{first} files fitted, then {second}");
    pool.finish();
}

/// Small files are staged; their space is promised when they are written, so nothing fails later.
#[test]
fn small_files_are_told_at_write() {
    let pool = Pool::new(2048);
    let vfs: &dyn Vfs = &*pool.volume;
    let count = fill(vfs, "s", 1000);
    assert!(count > 300, "only {count}");
    vfs.syncfs().expect("sync");
    let pool = pool.reopen();
    let vfs: &dyn Vfs = &*pool.volume;
    for i in 0..count {
        let ino = find(vfs, Ino::ROOT, &format!("s{i}")).expect("lookup");
        assert_eq!(read(vfs, ino, 0, 2000), vec![3; 1000]);
        vfs.unlink(Ino::ROOT, format!("s{i}").as_bytes()).expect("unlink");
    }
    pool.finish();
}
