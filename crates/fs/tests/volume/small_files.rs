//! What a small file costs that is made and synced (BARS P-1), and when its data gets a page of its own (decision 0490).

use super::{Pool, make, options, read, write};
use keepfs_fs::{FormatOptions, Volume};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Counters, Device};
use keepfs_vfs::{Direct, FileKind, Ino, Vfs};
use std::sync::Arc;

const FILES: u64 = 3000;
/// Pages of a pool of 1 GiB, whose log may carry as much as any (S-14.7).
const PAGES: u64 = 262_144;

fn new_file(pool: &Pool, name: &str) -> Ino {
    make(&*pool.volume, Ino::ROOT, name, FileKind::File).expect("make")
}

fn new_mail(pool: &Pool, i: u64) {
    let file = new_file(pool, &format!("mail-{i}"));
    write(&*pool.volume, file, 0, &[i as u8 | 1; 1024]);
    pool.volume.fsync(file, false).expect("fsync");
}

fn data(cost: Counters) -> u64 {
    cost.of(Class::Data).bytes
}

/// P-1: a created file of 1 KiB and its fsync are one flush and, but for directory splits, one page of the log; files that
/// are gone before the log is reused never cost a page of their own.
#[test]
fn a_synced_small_file_costs_one_page_of_log() {
    let pool = Pool::new(PAGES);
    new_mail(&pool, FILES);
    let before = pool.device.counters();
    (0..FILES).for_each(|i| new_mail(&pool, i));
    let cost = pool.device.counters() - before;
    assert_eq!(cost.flushes, FILES);
    let each = cost.all_written().bytes / FILES;
    assert!((4096..4096 + 160).contains(&each), "{each} bytes a file");
    assert_eq!(data(cost), 0);
    for i in 0..=FILES {
        let name = format!("mail-{i}");
        pool.volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlink");
    }
    pool.volume.syncfs().expect("sync");
    assert_eq!(data(pool.device.counters() - before), 0);
    pool.finish();
}

/// Without a checkpoint the commit interval leaves small data in the log; what a checkpoint had to carry over gets pages.
#[test]
fn what_a_checkpoint_carried_gets_pages() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(PAGES));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut options = options(true);
    options.commit_interval = core::time::Duration::from_millis(2);
    let volume = Volume::open(device.clone(), &options).expect("open");
    let pool = Pool { device, volume };
    let store = pool.volume.store().clone();
    new_mail(&pool, 0);
    // Three intervals pass: each makes a change durable that nobody syncs.
    for n in 1..=3 {
        new_file(&pool, &format!("interval-{n}"));
        while store.durable_seq() < store.last_seq() {
            std::thread::yield_now();
        }
    }
    assert_eq!((store.staged_total(), data(pool.device.counters())), (1, 0));
    store.checkpoint().expect("checkpoint");
    new_mail(&pool, 1);
    while store.staged_total() > 1 {
        std::thread::yield_now();
    }
    assert_eq!(data(pool.device.counters()), 4096);
    drop(store);
    pool.finish();
}

/// Decision 0401: what nobody holds ends with the transaction that takes its last name, be it by unlink or by rename; what
/// somebody holds goes on the hidden list and ends when it is let go.
#[test]
fn a_small_file_that_nobody_holds_ends_with_its_last_name() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let store = pool.volume.store();
    let transactions = || store.stats().transactions;
    let file = |name: &str| {
        let ino = make(vfs, Ino::ROOT, name, FileKind::File).expect("make");
        write(vfs, ino, 0, &[1; 5000]);
        ino
    };
    let hidden = || store.orphans().expect("orphans");
    file("one");
    vfs.syncfs().expect("sync");
    let before = transactions();
    vfs.unlink(Ino::ROOT, b"one").expect("unlink");
    assert_eq!(transactions(), before + 1);

    file("from");
    file("to");
    vfs.syncfs().expect("sync");
    let before = transactions();
    vfs.rename(Ino::ROOT, b"from", Ino::ROOT, b"to", Default::default())
        .expect("rename");
    assert_eq!(transactions(), before + 1);
    assert_eq!(hidden(), []);

    let held = vfs.lookup(Ino::ROOT, b"to").expect("lookup").attr.ino;
    vfs.unlink(Ino::ROOT, b"to").expect("unlink");
    assert_eq!(hidden(), [held.0]);
    assert_eq!(read(vfs, held, 0, 5000), vec![1; 5000]);
    vfs.forget(held, 1);
    assert_eq!(hidden(), []);
    pool.finish();
}
