//! Long work on a file lets others have their turn: what takes many transactions gives the file's lock away between
//! them (S-20.12, S-20.19).

use super::*;
use keepfs_vfs::{Direct, FallocMode, OpenHow, SetAttr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages of the file that is worked on: tens of transactions.
const PAGES: u64 = 10_000;
const BYTES: u64 = PAGES * 4096;
/// Numbers so far apart have one lock.
const SHARDS: u64 = 1024;
/// Who looks needs a processor at the right moment, and gets it in one of so many tries.
const TRIES: usize = 3000;

/// What somebody who asks all the time gets to see while `work` is done.
fn seen_beside<T: Send>(look: impl Fn() -> T + Sync, work: impl FnOnce()) -> Vec<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (begun, begins) = std::sync::mpsc::channel();
        let (over, look) = (&over, &look);
        let looker = scope.spawn(move || {
            let mut seen = Vec::new();
            while !over.load(Ordering::Acquire) {
                seen.push(look());
                let _ = begun.send(());
            }
            seen
        });
        begins.recv().expect("it looks");
        work();
        over.store(true, Ordering::Release);
        looker.join().expect("it looked")
    })
}

fn cut(vfs: &dyn Vfs, ino: Ino) {
    let size = Some(0);
    vfs.setattr(
        ino,
        &SetAttr {
            size,
            ..SetAttr::default()
        },
    )
    .expect("truncate");
}

/// Whoever asks for a file's attributes while many of its pages come or go gets them meanwhile.
#[test]
fn who_looks_is_let_in_between() {
    type Work = fn(&dyn Vfs, Ino);
    let allocate: Work = |vfs, ino| vfs.fallocate(ino, FallocMode::Allocate, 0, BYTES).expect("allocate");
    let punch: Work = |vfs, ino| vfs.fallocate(ino, FallocMode::PunchHole, 0, BYTES).expect("punch");
    let zero: Work = |vfs, ino| {
        let mode = FallocMode::ZeroRange { keep_size: false };
        vfs.fallocate(ino, mode, 0, BYTES).expect("zero");
    };
    let open: Work = |vfs, ino| {
        let how = OpenHow {
            write: true,
            truncate: true,
            ..OpenHow::default()
        };
        vfs.open(ino, how).expect("open");
    };
    let fill: Work = |vfs, ino| {
        for at in (0..BYTES).step_by(1 << 20) {
            write(vfs, ino, at, &vec![7; (BYTES - at).min(1 << 20) as usize]);
        }
    };
    let pool = Pool::with(40_000, true);
    let vfs: &dyn Vfs = &*pool.volume;
    let ino = make(vfs, Ino::ROOT, "big", FileKind::File).expect("create");
    for (what, first, work) in [
        ("allocate", cut as Work, allocate),
        ("truncate", fill, cut),
        ("open", fill, open),
        ("punch", fill, punch),
        ("zero", fill, zero),
    ] {
        let all = BYTES / 512;
        let is_let_in = (0..TRIES).any(|_| {
            first(vfs, ino);
            vfs.syncfs().expect("sync");
            let blocks = || vfs.getattr(ino).expect("attributes").blocks;
            let seen = seen_beside(blocks, || work(vfs, ino));
            seen.iter().any(|blocks| (1..all).contains(blocks))
        });
        assert!(is_let_in, "{what}: nobody was let in");
    }
    pool.finish();
}

/// A large file without names is freed in the background, and a file that shares its lock is not kept waiting.
#[test]
fn a_neighbour_of_what_is_freed_is_let_in_between() {
    let pool = Pool::with(16 * 40_000, true);
    let vfs: &dyn Vfs = &*pool.volume;
    let names = (0..SHARDS).map(|i| format!("f{i}"));
    let others: Vec<Ino> = names
        .map(|name| make(vfs, Ino::ROOT, &name, FileKind::File).expect("create"))
        .collect();
    let used = || pool.volume.store().totals().pages;
    let is_let_in = (0..TRIES).any(|_| {
        let big = make(vfs, Ino::ROOT, "big", FileKind::File).expect("create");
        let neighbour = others.iter().find(|ino| ino.0 % SHARDS == big.0 % SHARDS);
        let neighbour = *neighbour.expect("one shares its lock");
        let look = || {
            let first = used();
            vfs.getattr(neighbour).expect("attributes");
            (first, used())
        };
        vfs.fallocate(big, FallocMode::Allocate, 0, 16 * BYTES)
            .expect("allocate");
        vfs.syncfs().expect("sync");
        let full = used();
        let seen = seen_beside(look, || {
            vfs.unlink(Ino::ROOT, b"big").expect("unlink");
            while !pool.volume.store().orphans().expect("listed").is_empty() {
                pool.volume.reclaim_now().expect("freed");
            }
        });
        let is_between = |pages: u64| (full - 8 * PAGES..full - 500).contains(&pages);
        seen.iter().any(|(first, then)| is_between(*first) && is_between(*then))
    });
    assert!(is_let_in, "nobody was let in");
    pool.finish();
}
