//! Threads on one volume: every operation is whole, whoever else is at it.

use super::*;
use keepfs_vfs::{Direct, Errno, RenameFlags};

/// Rounds of each thread.
const ROUNDS: usize = 400;

/// One thread's life in its own directory, with moves to and from a shared one.
fn live(vfs: &dyn Vfs, me: usize) {
    let dir = make(vfs, Ino::ROOT, &format!("d{me}"), FileKind::Dir).expect("mkdir");
    let shared = find(vfs, Ino::ROOT, "shared").expect("lookup");
    for round in 0..ROUNDS {
        let name = format!("f{round}");
        let ino = make(vfs, dir, &name, FileKind::File).expect("create");
        let data = vec![me as u8 + 1; 100 + round * 37 % 9000];
        write(vfs, ino, 0, &data);
        assert!(read(vfs, ino, 0, 10_000) == data);
        let common = format!("c{}", round % 7);
        match vfs.rename(dir, name.as_bytes(), shared, common.as_bytes(), RenameFlags::default()) {
            Ok(()) => {}
            Err(other) => panic!("rename: {other}"),
        }
        match vfs.lookup(shared, common.as_bytes()) {
            Ok(Entry { attr }) => {
                let bytes = read(vfs, attr.ino, 0, 10_000);
                assert!(
                    bytes.iter().all(|b| *b == bytes[0]),
                    "one file holds one thread's bytes"
                );
                vfs.forget(attr.ino, 1);
            }
            Err(Errno::ENOENT) => {}
            Err(other) => panic!("lookup: {other}"),
        }
        if round % 3 == 0 {
            match vfs.unlink(shared, common.as_bytes()) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(other) => panic!("unlink: {other}"),
            }
        }
        if round % 50 == 0 {
            vfs.syncfs().expect("sync");
        }
    }
    vfs.rmdir(Ino::ROOT, format!("d{me}").as_bytes()).expect("rmdir");
}

/// Four threads, with the background thread on, leave a sound pool.
#[test]
fn threads_leave_a_sound_pool() {
    let pool = Pool::with(16_384, true);
    make(&*pool.volume, Ino::ROOT, "shared", FileKind::Dir).expect("mkdir");
    std::thread::scope(|scope| {
        for me in 0..4 {
            let vfs: &dyn Vfs = &*pool.volume;
            scope.spawn(move || live(vfs, me));
        }
    });
    let left = find(&*pool.volume, Ino::ROOT, "shared").expect("lookup");
    let mut names = 0;
    pool.volume
        .readdir(left, 2, &mut |_| {
            names += 1;
            true
        })
        .expect("readdir");
    assert!(names <= 7);
    pool.finish();
}

/// Directories moved across each other by two threads never make a ring and never lock each other out.
#[test]
fn directories_move_across_each_other() {
    let pool = Pool::with(8192, true);
    let vfs: &dyn Vfs = &*pool.volume;
    let a = make(vfs, Ino::ROOT, "a", FileKind::Dir).expect("mkdir");
    let b = make(vfs, Ino::ROOT, "b", FileKind::Dir).expect("mkdir");
    make(vfs, a, "x", FileKind::Dir).expect("mkdir");
    make(vfs, b, "y", FileKind::Dir).expect("mkdir");
    std::thread::scope(|scope| {
        for (from, to, name) in [(a, b, "x"), (b, a, "y"), (Ino::ROOT, a, "b"), (Ino::ROOT, b, "a")] {
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    for (from, to) in [(from, to), (to, from)] {
                        match vfs.rename(from, name.as_bytes(), to, name.as_bytes(), RenameFlags::default()) {
                            Ok(()) | Err(Errno::ENOENT | Errno::EINVAL | Errno::ENOTEMPTY) => {}
                            Err(other) => panic!("rename: {other}"),
                        }
                    }
                }
            });
        }
    });
    pool.finish();
}
