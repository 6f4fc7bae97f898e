//! What opening finds: the hidden list, and pools that may only be read.

use super::*;
use keepfs_vfs::{Direct, Errno, OpenHow};

/// S-5.6: files without names that were open when the power went are freed at the next open.
#[test]
fn orphans_of_a_crash_are_freed_at_open() {
    let pool = Pool::for_tests(8192);
    let vfs: &dyn Vfs = &*pool.volume;
    let held = vfs
        .mknod(Ino::ROOT, b"held", &new(FileKind::File))
        .expect("create")
        .attr
        .ino;
    write(vfs, held, 0, &vec![9; 3 << 20]);
    vfs.unlink(Ino::ROOT, b"held").expect("unlink");
    let nameless = vfs.tmpfile(Ino::ROOT, &new(FileKind::File)).expect("tmpfile").attr.ino;
    write(vfs, nameless, 0, &[8; 5000]);
    assert_eq!(read(vfs, held, 1 << 20, 10), [9; 10], "it lives as long as it is held");
    assert_eq!(vfs.link(held, Ino::ROOT, b"again"), Err(Errno::ENOENT));
    vfs.syncfs().expect("sync");
    assert_eq!(pool.volume.store().totals().inodes, 3);
    vfs.shutdown(false).expect("shutdown");
    assert_eq!(vfs.getattr(Ino::ROOT), Err(Errno::EIO));
    let device = pool.device;
    drop(pool.volume);
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    assert_eq!(volume.store().totals().inodes, 1);
    assert_eq!(volume.getattr(held), Err(Errno::ESTALE));
    Pool { device, volume }.finish();
}

/// A read-only volume reads everything, the log's part too, and refuses every change.
#[test]
fn a_read_only_volume_changes_nothing() {
    let pool = Pool::for_tests(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let file = make(vfs, Ino::ROOT, "file", FileKind::File).expect("create");
    write(vfs, file, 0, &[5; 1000]);
    vfs.syncfs().expect("sync");
    vfs.shutdown(false).expect("shutdown");
    let device = pool.device;
    drop(pool.volume);
    let mut read_only = options(false);
    read_only.store.read_only = true;
    let before = device.counters();
    let volume = Volume::open(device.clone(), &read_only).expect("open");
    let vfs: &dyn Vfs = &*volume;
    assert_eq!(
        read(vfs, find(vfs, Ino::ROOT, "file").expect("lookup"), 0, 2000),
        [5; 1000]
    );
    assert_eq!(make(vfs, Ino::ROOT, "other", FileKind::File), Err(Errno::EROFS));
    assert_eq!(vfs.unlink(Ino::ROOT, b"file"), Err(Errno::EROFS));
    assert_eq!(vfs.write(file, 0, b"x", WriteHow::default()), Err(Errno::EROFS));
    let truncate = OpenHow {
        truncate: true,
        ..OpenHow::default()
    };
    assert_eq!(vfs.open(file, truncate), Err(Errno::EROFS));
    vfs.unmount().expect("unmount");
    drop(volume);
    assert_eq!(device.counters().written, before.written, "nothing was written");
}

/// S-9.5: a volume that was opened read-only recovers the device before its first write, and frees orphans then (S-5.6).
#[test]
fn a_read_only_volume_begins_writing() {
    let mut read_only = options(false);
    read_only.store.read_only = true;
    let pool = Pool::for_tests(8192);
    let vfs: &dyn Vfs = &*pool.volume;
    let held = vfs.mknod(Ino::ROOT, b"held", &new(FileKind::File)).expect("create");
    write(vfs, held.attr.ino, 0, &vec![9; 1 << 20]);
    vfs.unlink(Ino::ROOT, b"held").expect("unlink");
    let file = make(vfs, Ino::ROOT, "file", FileKind::File).expect("create");
    write(vfs, file, 0, &[5; 1000]);
    vfs.syncfs().expect("sync");
    vfs.shutdown(false).expect("shutdown");
    let device = pool.device;
    drop(pool.volume);
    let volume = Volume::open(device.clone(), &read_only).expect("open");
    assert!(volume.is_read_only());
    assert_eq!(volume.store().totals().inodes, 3);
    volume.begin_writing().expect("begin");
    volume.begin_writing().expect("once more changes nothing");
    assert!(!volume.is_read_only());
    assert_eq!(volume.store().totals().inodes, 2);
    assert_eq!(read(&*volume, file, 0, 2000), [5; 1000]);
    write(&*volume, file, 500, &[6; 1000]);
    volume.syncfs().expect("sync");
    Pool { device, volume }.finish();
}

/// S-5.1: who may not write cannot make the root directory.
#[test]
fn a_pool_without_a_root_is_not_opened_read_only() {
    let mut read_only = options(false);
    read_only.store.read_only = true;
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let said = match Volume::open(device.clone(), &read_only) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    };
    assert!(said.contains("no root directory yet"), "{said}");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    Pool { device, volume }.finish();
}

/// S-16.5: the redo of a server that died was damaged, and a file that the kernel has looked up is no more. Its number is not
/// given to another one, over as many lives as the mount has: a name that the kernel remembers would lead there.
#[test]
fn a_number_that_is_looked_up_is_not_given_again_behind_a_loss() {
    let Pool { device, volume } = Pool::new(4096);
    drop(volume);
    let mut volume = Volume::open(device.clone(), &lasting()).expect("open");
    let vfs: &dyn Vfs = &*volume;
    let lost: Vec<Ino> = (0..20)
        .map(|n| vfs.mknod(Ino::ROOT, format!("lost{n}").as_bytes(), &new(FileKind::File)))
        .map(|made| made.expect("create").attr.ino)
        .collect();
    let mut remains = volume.remains().expect("it lasts");
    drop(remains.take("staging"));
    for life in 0..2 {
        drop(volume);
        let resumed = Volume::resume(device.clone(), &lasting(), remains).expect("resumed");
        assert_eq!(resumed.1.lost > 0, life == 0, "only the first life loses something");
        volume = resumed.0;
        let mut seen = Vec::new();
        volume.each_looked_up(|ino| seen.push(ino));
        assert!(lost.iter().all(|ino| seen.contains(ino)), "the kernel still has them");
        for (n, ino) in lost.iter().enumerate() {
            assert_eq!(volume.getattr(*ino), Err(Errno::ESTALE));
            let made = make(&*volume, Ino::ROOT, &format!("life{life}.{n}"), FileKind::File).expect("create");
            assert!(
                !lost.contains(&made),
                "{made:?} is looked up by the name of a file that is lost"
            );
        }
        volume.syncfs().expect("sync");
        remains = volume.remains().expect("it lasts");
    }
    drop(remains);
    // Who forgets a number does not make it another's.
    volume.forget(lost[0], 1);
    Pool { device, volume }.finish();
}

/// S-20.9: the power of a pool that people use is not cut; its space is told of by ranges that make sense.
#[test]
fn administrators_are_refused_what_makes_no_sense() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    assert_eq!(vfs.shutdown(false), Err(Errno::EPERM));
    make(vfs, Ino::ROOT, "file", FileKind::File).expect("it goes on");
    const PAGE: u64 = keepfs_format::PAGE as u64;
    let size = 4096 * PAGE;
    for (start, len, least) in [
        (size, PAGE, 0),
        (u64::MAX, PAGE, 0),
        (0, PAGE - 1, 0),
        (0, u64::MAX, size + 1),
    ] {
        assert_eq!(vfs.trim(start, len, least), Err(Errno::EINVAL), "{start} {len} {least}");
    }
    assert!(vfs.trim(0, u64::MAX, 0).expect("trim") > 0);
    pool.finish();
}
