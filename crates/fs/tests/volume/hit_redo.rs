//! A server dies whose redo was hit: the next one shows a state that was, and nothing that was synced is gone (S-11.2,
//! S-16.19, S-16.21, S-16.22).

use super::*;
use keepfs_vfs::{Direct, Errno};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where in the memory the next entry of the redo will begin (S-14.1).
fn next_entry(staging: &File) -> u64 {
    let mut cursor = [0; 8];
    staging.read_exact_at(&mut cursor, 64).expect("a cursor");
    4096 + (u64::from_le_bytes(cursor) >> 20 & 0xF_FFFF) * 8
}

/// A server does `before` and `behind`; the redo of what it does between them is hit, and it dies. How many transactions are told as
/// lost.
fn hit_between(before: impl FnOnce(&dyn Vfs), behind: impl FnOnce(&dyn Vfs)) -> (Pool, u64) {
    let Pool { device, volume } = Pool::new(4096);
    drop(volume);
    let volume = Volume::open(device.clone(), &lasting()).expect("open");
    let remains = volume.remains().expect("it lasts");
    let staging = remains.named().find(|(name, _)| *name == "staging").expect("redo").1;
    let staging = File::from(staging.try_clone_to_owned().expect("a descriptor"));
    before(&*volume);
    let at = next_entry(&staging);
    make(&*volume, Ino::ROOT, "between", FileKind::Dir).expect("made");
    behind(&*volume);
    let mut bytes = [0; 8];
    staging.read_exact_at(&mut bytes, at + 24).expect("read");
    staging
        .write_all_at(&bytes.map(|byte| byte ^ 0x5A), at + 24)
        .expect("written");
    drop(volume);
    let (volume, resumed) = Volume::resume(device.clone(), &lasting(), remains).expect("resumed");
    assert_eq!(find(&*volume, Ino::ROOT, "between"), Err(Errno::ENOENT));
    (Pool { device, volume }, resumed.lost)
}

/// Files that have every page which is free.
fn new_files(vfs: &dyn Vfs) {
    for n in 0..40 {
        let file = make(vfs, Ino::ROOT, &format!("new{n}"), FileKind::File).expect("made");
        write(vfs, file, 0, &[n; 16384]);
    }
}

/// Pages of a file that is in what is kept of the redo went to others that are lost: the file is as it was before it had them.
#[test]
fn pages_that_went_to_lost_files_end_what_is_kept() {
    let with_pages = |vfs: &dyn Vfs| {
        let file = make(vfs, Ino::ROOT, "file", FileKind::File).expect("made");
        write(vfs, file, 0, &[7; 32768]);
    };
    let behind = |vfs: &dyn Vfs| {
        vfs.unlink(Ino::ROOT, b"file").expect("unlink");
        new_files(vfs);
    };
    let (pool, lost) = hit_between(with_pages, behind);
    let file = find(&*pool.volume, Ino::ROOT, "file").expect("made before");
    assert_eq!(read(&*pool.volume, file, 0, 40000), []);
    assert!(lost > 40);
    pool.finish();

    // Where nobody took them it is whole.
    let (pool, _) = hit_between(with_pages, |vfs| vfs.unlink(Ino::ROOT, b"file").expect("unlink"));
    let file = find(&*pool.volume, Ino::ROOT, "file").expect("made before");
    assert_eq!(read(&*pool.volume, file, 0, 40000), [7; 32768]);
    pool.finish();
}

/// A file whose synced bytes are in the log alone went to a page meanwhile, and the page to others: it has what was synced.
#[test]
fn what_was_synced_into_the_log_is_there() {
    let mut whole = [5; 32768];
    whole[..141].fill(9);
    let before = |vfs: &dyn Vfs| {
        let file = make(vfs, Ino::ROOT, "file", FileKind::File).expect("made");
        write(vfs, file, 0, &whole[..141]);
        vfs.fsync(file, false).expect("sync");
        write(vfs, file, 0, &whole);
    };
    let behind = |vfs: &dyn Vfs| {
        let file = find(vfs, Ino::ROOT, "file").expect("there");
        write(vfs, file, 0, &[8; 32768]);
        new_files(vfs);
    };
    let (pool, _) = hit_between(before, behind);
    let file = find(&*pool.volume, Ino::ROOT, "file").expect("synced");
    assert_eq!(read(&*pool.volume, file, 0, 141), whole[..141]);
    pool.finish();
}

/// S-16.28: where no lookup counts are left, what has no name counts as looked up until the unmount.
#[test]
fn a_file_without_a_name_stays_where_no_counts_are_left() {
    let Pool { device, volume } = Pool::new(4096);
    drop(volume);
    let volume = Volume::open(device.clone(), &lasting()).expect("open");
    let mut remains = volume.remains().expect("it lasts");
    let made = volume.mknod(Ino::ROOT, b"open", &new(FileKind::File)).expect("made");
    write(&*volume, made.attr.ino, 0, b"text");
    volume.unlink(Ino::ROOT, b"open").expect("unlink");
    drop(volume);
    assert!(remains.take(keepfs_store::LOOKUPS).is_some());
    let (volume, resumed) = Volume::resume(device.clone(), &lasting(), remains).expect("resumed");
    assert_eq!((resumed.lost, resumed.findings.len()), (0, 1), "{:?}", resumed.findings);
    assert_eq!(read(&*volume, made.attr.ino, 0, 10), b"text");
    Pool { device, volume }.finish();
}
