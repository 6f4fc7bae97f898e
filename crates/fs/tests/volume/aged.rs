//! An aged pool: each page of a file lies where its bit and its reference count are in metablocks of their own, so that
//! freeing them touches more frames than one transaction may (X-2.1, decision 0401).

use super::*;
use keepfs_vfs::{Direct, FallocMode, SetAttr};

const PAGE: u64 = 4096;
/// Pages of each file, one a zone; a zone has a metablock of the page bitmap for itself.
const PAGES: u64 = 290;
const ZONE: u64 = 32_512;
const FILES: [&str; 7] = ["write", "punch", "cut", "target", "zero", "source", "gone"];

/// A sparse pool of 36 GiB with the files; `arena` frames.
fn aged(arena: usize) -> Pool {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new((PAGES + 8) * ZONE));
    let format = FormatOptions {
        zone_pages: Some(ZONE),
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format).expect("format");
    let mut options = options(false);
    options.store.arena_bytes = arena * PAGE as usize;
    options.store.tiny_arena = true;
    let volume = Volume::open(device.clone(), &options).expect("open");
    let files = FILES.map(|name| make(&*volume, Ino::ROOT, name, FileKind::File).expect("make"));
    for page in 0..PAGES {
        for ino in files {
            write(&*volume, ino, page * PAGE, &[page as u8 | 1; PAGE as usize]);
        }
        volume.store().want_other_zones();
        volume.store().checkpoint().expect("checkpoint");
    }
    Pool { device, volume }
}

fn size(v: &dyn Vfs, ino: Ino, size: u64) {
    let change = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    v.setattr(ino, &change).expect("truncate");
}

/// Changes every file as a whole; in between nothing is refused, behind it the walk finds nothing.
fn change_all(pool: Pool, whole_writes: bool) {
    let v: &dyn Vfs = &*pool.volume;
    let [over, punch, cut, target, zero, source, _] = FILES.map(|name| find(v, Ino::ROOT, name).expect("find"));
    let all = PAGES * PAGE;
    let before = pool.volume.store().last_seq();
    write(v, over, 0, &[9; 1 << 20]);
    let transactions = pool.volume.store().last_seq() - before;
    assert_eq!(transactions == 1, whole_writes, "{transactions} transactions");
    assert!(read(v, over, 0, 1 << 20) == vec![9; 1 << 20]);
    v.fallocate(punch, FallocMode::PunchHole, 0, all).expect("punch");
    assert_eq!(v.getattr(punch).expect("getattr").blocks, 0);
    v.fallocate(zero, FallocMode::ZeroRange { keep_size: false }, 10, all)
        .expect("zero");
    assert!(read(v, zero, 0, all as usize)[10..].iter().all(|b| *b == 0));
    size(v, cut, PAGE + 5);
    assert_eq!(v.getattr(cut).expect("getattr").blocks, 16);
    let mut done = 0;
    while done < all {
        let count = v.copy_file_range(source, done, target, done, all - done).expect("copy");
        assert!(count > 0 && (count % PAGE == 0 || done + count == all));
        done += count;
    }
    assert!(read(v, target, 0, all as usize) == read(v, source, 0, all as usize));
    v.unlink(Ino::ROOT, b"gone").expect("unlink");
    // Shared by two names now: overwriting takes references away.
    write(v, source, 0, &[8; 1 << 20]);
    v.syncfs().expect("sync");
    pool.finish();
}

/// The smallest arena: a transaction touches 256 frames at most.
#[test]
fn scattered_pages_in_a_small_arena() {
    change_all(aged(512), false);
}

/// C-1: in an arena of 20 MiB and more a write of 1 MiB is one transaction wherever the old pages lie.
#[test]
fn scattered_pages_in_a_large_arena() {
    change_all(aged(5200), true);
}
