//! Full pools (promise C-7): told at write, deleting always works, overwriting never fails.

use super::*;
use keepfs_vfs::{Direct, Errno, SetAttr};
use std::time::{Duration, Instant};

/// Bytes of the file that is overwritten: more than the pages that are kept for it.
const WRITTEN: usize = 300_000;
/// Keys of the hashes of names with which a checkpoint, on the way, takes some of the last pages.
const SEEDS: [u64; 3] = [1, 9, 10];

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

/// Fills the pool with files of all sizes, whose names begin so.
pub fn fill_to_the_brim(vfs: &dyn Vfs, prefix: &str) {
    for len in [300_000, 65_536, 4096, 10, 0] {
        fill(vfs, &format!("{prefix}-{len}-"), len);
    }
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

/// Makes empty files until there is room for none; how many, and which others.
fn fill_with_empty(vfs: &dyn Vfs) -> (usize, Vec<usize>) {
    let count = fill(vfs, "empty", 0);
    // The name that was refused may have needed up to three new nodes (a leaf is split in two, under a new index), where
    // another one (the hash's key is random) finds room in a leaf that is there: then the last pages hold a few inodes.
    let made: Vec<usize> = (0..200)
        .filter(|i| make(vfs, Ino::ROOT, &other(*i), FileKind::File).is_ok())
        .collect();
    assert!(made.len() < 60, "{} files more in a full pool", made.len());
    (count, made)
}

fn other(i: usize) -> String {
    format!("other{i}")
}

/// On a full pool a write may be told in pieces, as on any: overwriting never meets ENOSPC.
fn overwrite(vfs: &dyn Vfs, full: Ino) {
    let mut done = 0;
    while done < WRITTEN {
        let rest = vec![2; WRITTEN - done];
        let written = vfs.write(full, done as u64, &rest, WriteHow::default());
        done += written.expect("overwriting");
    }
}

/// C-7, with keys of the hashes for which the last pages go to chunks of a checkpoint while room for a write is looked for.
#[test]
fn what_a_checkpoint_takes_on_the_way_is_not_missed() {
    for seed in SEEDS {
        let pool = Pool::seeded(4096, seed);
        let vfs: &dyn Vfs = &*pool.volume;
        let full = make(vfs, Ino::ROOT, "written", FileKind::File).expect("make");
        assert_eq!(vfs.write(full, 0, &[1; WRITTEN], WriteHow::default()), Ok(WRITTEN));
        fill_with_empty(vfs);
        overwrite(vfs, full);
        pool.finish();
    }
}

/// C-7: metadata alone fills the pool; before the reserve it is told, and every file can be deleted and made again.
#[test]
fn empty_files_leave_room_to_delete_them() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let full = make(vfs, Ino::ROOT, "written", FileKind::File).expect("make");
    assert_eq!(vfs.write(full, 0, &[1; WRITTEN], WriteHow::default()), Ok(WRITTEN));
    let mut counts = Vec::new();
    for _ in 0..2 {
        let (count, made) = fill_with_empty(vfs);
        counts.push(count);
        overwrite(vfs, full);
        vfs.syncfs().expect("sync of a full pool");
        for i in 0..count {
            vfs.unlink(Ino::ROOT, format!("empty{i}").as_bytes()).expect("unlink");
        }
        for i in made {
            vfs.unlink(Ino::ROOT, other(i).as_bytes()).expect("unlink");
        }
        vfs.syncfs().expect("sync");
    }
    assert!(counts[0] > 3000, "only {} empty files", counts[0]);
    // What the first ones had taken for their metadata is there again.
    assert!(counts[1] * 100 > counts[0] * 97, "{counts:?}");
    pool.finish();
}

/// statfs tells what a write gets: after everything was deleted the pool is as empty as before, at once, but for what
/// the metadata of so much data has (a twentieth of this small pool), and takes as much again, although the pages wait in
/// quarantine and the files are freed in the background. When they are freed, checkpoints give back what metadata had.
#[test]
fn what_was_deleted_is_free_at_once() {
    for background in [false, true] {
        let pool = Pool::with(8192, background);
        let vfs: &dyn Vfs = &*pool.volume;
        let empty = vfs.statfs().expect("statfs");
        for round in 0..3 {
            let mut left = empty.blocks_available * 4096 / 100 * 94;
            let mut files = 0;
            while left > 0 {
                let ino = make(vfs, Ino::ROOT, &format!("{round}-{files}"), FileKind::File).expect("make");
                let data = vec![round; left.min(1 << 20) as usize];
                write(vfs, ino, 0, &data);
                left -= data.len() as u64;
                files += 1;
            }
            let full = vfs.statfs().expect("statfs");
            assert!(full.blocks_available < empty.blocks_available / 5, "{full:?}");
            for file in 0..files {
                vfs.unlink(Ino::ROOT, format!("{round}-{file}").as_bytes())
                    .expect("unlink");
            }
            let again = vfs.statfs().expect("statfs");
            assert!(
                again.blocks_available * 100 >= empty.blocks_available * 94,
                "{empty:?}, then {again:?}"
            );
            assert!(again.blocks_free * 100 >= empty.blocks_free * 94, "{again:?}");
        }
        pool.volume.settle().expect("settle");
        for _ in 0..8 {
            pool.volume.store().checkpoint().expect("checkpoint");
        }
        let settled = vfs.statfs().expect("statfs");
        assert!(
            settled.blocks_available * 100 >= empty.blocks_available * 97,
            "{empty:?}, then {settled:?}"
        );
        pool.finish();
    }
}

/// S-11.4: the kernel gives back what it looked up a moment after unlink(2) has returned. Who needs the space meanwhile has it.
#[test]
fn what_was_removed_just_before_makes_room_before_it_is_given_back() {
    let pool = Pool::with(4096, true);
    let vfs: &dyn Vfs = &*pool.volume;
    for round in 0..10 {
        let Entry { attr: large } = vfs
            .mknod(Ino::ROOT, b"large", &new(FileKind::File))
            .expect("make large");
        let most = vfs.statfs().expect("statfs").blocks_available * 4096;
        (0..most).step_by(1 << 20).find(|at| {
            let len = (most - at).min(1 << 20) as usize;
            vfs.write(large.ino, *at, &vec![7; len], WriteHow::default()) != Ok(len)
        });
        let small = fill(vfs, "small", 4096);
        vfs.unlink(Ino::ROOT, b"large").expect("unlink");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let ino = make(vfs, Ino::ROOT, "after", FileKind::File)?;
                vfs.write(ino, 0, &[8; 1 << 20], WriteHow::default())
            });
            // Most likely the writer has found no space by then; if not, the round shows nothing.
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until && !writer.is_finished() {
                std::thread::yield_now();
            }
            vfs.forget(large.ino, 1);
            assert_eq!(writer.join().expect("writer"), Ok(1 << 20), "round {round}");
        });
        for name in (0..=small).map(|i| format!("small{i}")).chain(["after".into()]) {
            match vfs.unlink(Ino::ROOT, name.as_bytes()) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(other) => panic!("{name}: {other}"),
            }
        }
        vfs.syncfs().expect("sync");
    }
    pool.finish();
}

/// S-20.14: the kernel takes a count for success when it writes back. What does not fit whole is an error, so that fsync(2) tells.
#[test]
fn what_the_kernel_writes_back_is_never_cut_short() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let ino = make(vfs, Ino::ROOT, "file", FileKind::File).expect("make");
    let how = WriteHow {
        writeback: true,
        ..WriteHow::default()
    };
    let data = vec![5; 300_000];
    let size = SetAttr {
        size: Some(1 << 30),
        ..SetAttr::default()
    };
    vfs.setattr(ino, &size).expect("size");
    let refused = (0..100).find_map(|i| match vfs.write(ino, i * 300_000, &data, how) {
        Ok(300_000) => None,
        other => Some(other),
    });
    assert_eq!(refused, Some(Err(Errno::ENOSPC)));
    pool.finish();
}

/// S-20.5: pages that several files have give nothing back when one of them writes there, so they take nothing of what is kept for
/// overwriting.
#[test]
fn writing_to_a_clone_leaves_others_what_they_overwrite_with() {
    let pool = Pool::new(8192);
    let vfs: &dyn Vfs = &*pool.volume;
    let file = |name: &str| make(vfs, Ino::ROOT, name, FileKind::File).expect("make");
    let (own, first, second) = (file("own"), file("first"), file("second"));
    write(vfs, own, 0, &vec![1; 65_536]);
    for at in 0..12 {
        write(vfs, first, at << 20, &vec![2; 1 << 20]);
    }
    vfs.syncfs().expect("sync");
    for at in (0..12).map(|at| at << 20) {
        assert_eq!(vfs.copy_file_range(first, at, second, at, 1 << 20), Ok(1 << 20));
    }
    fill_to_the_brim(vfs, "fill");
    vfs.syncfs().expect("sync");
    let mut refused = 0;
    for i in 0..400 {
        refused += u32::from(vfs.write(second, i * 8192, &[3; 8192], WriteHow::default()) != Ok(8192));
        assert_eq!(
            vfs.write(own, 0, &vec![i as u8; 65_536], WriteHow::default()),
            Ok(65_536),
            "behind {i} writes to a clone"
        );
    }
    assert!(refused > 300, "only {refused} writes to a clone found no space");
    pool.finish();
}
