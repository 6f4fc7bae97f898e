//! C-2 as files see it: what an fsync costs on the device, counted there.

use super::*;
use keepfs_media::Class;

/// n new files of 1 KiB, each synced: n flushes and n groups of one page (BARS P-1). A group that a split of the
/// directory or staged pages written out got into may have one more. No checkpoint is needed.
#[test]
fn an_fsync_of_a_new_small_file_costs_one_flush_and_one_page() {
    let pool = Pool::new(32_768);
    let vfs: &dyn Vfs = &*pool.volume;
    let dir = make(vfs, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    vfs.syncfs().expect("sync");
    let before = pool.device.counters();
    for i in 0..200 {
        let ino = make(vfs, dir, &format!("file-{i}"), FileKind::File).expect("create");
        write(vfs, ino, 0, &[i as u8; 1024]);
        vfs.fsync(ino, false).expect("fsync");
    }
    let cost = pool.device.counters() - before;
    assert_eq!(cost.flushes, 200);
    assert_eq!(cost.of(Class::Plog).operations, 200);
    let extra = cost.of(Class::Plog).bytes / 4096 - 200;
    assert!(
        extra <= 2 + cost.of(Class::Data).operations,
        "{extra} pages more: {cost:?}"
    );
    let both = cost.of(Class::Plog).operations + cost.of(Class::Data).operations;
    assert_eq!(cost.all_written().operations, both);
    pool.finish();
}

/// One fsync covers everything committed, whole pages of data among it; the next fsync of another file is free.
#[test]
fn what_another_fsync_made_durable_costs_nothing() {
    let pool = Pool::new(32_768);
    let vfs: &dyn Vfs = &*pool.volume;
    let a = make(vfs, Ino::ROOT, "a", FileKind::File).expect("create");
    let b = make(vfs, Ino::ROOT, "b", FileKind::File).expect("create");
    write(vfs, a, 0, &[1; 1 << 20]);
    write(vfs, b, 0, &[2; 1 << 20]);
    let before = pool.device.counters();
    vfs.fsync(a, false).expect("fsync");
    vfs.fsync(b, false).expect("fsync");
    assert_eq!((pool.device.counters() - before).flushes, 1);
    pool.finish();
}
