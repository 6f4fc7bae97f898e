//! A volume at rest: `mount -o remount,ro`.

use super::{Pool, new};
use keepfs_media::PageNo;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, Vfs};
use std::thread::park_timeout;
use std::time::Duration;

const PAGES: u64 = 16_384;

fn bytes(pool: &Pool) -> Vec<u8> {
    let mut bytes = vec![0; PAGES as usize * 4096];
    for (n, page) in bytes.chunks_exact_mut(4096).enumerate() {
        pool.device.read(PageNo(n as u64), page).expect("read");
    }
    bytes
}

/// S-20.21: what the kernel gives back behind that changes nothing on the device. A volume that takes changes again frees it.
#[test]
fn nothing_is_written_at_rest() {
    let pool = Pool::with(PAGES, true);
    let volume = &pool.volume;
    let held = volume.mknod(Ino(1), b"held", &new(FileKind::File)).unwrap().attr.ino;
    super::write(&**volume, held, 0, &[1; 100_000]);
    volume.unlink(Ino(1), b"held").unwrap();
    volume.rest().expect("at rest");
    let before = bytes(&pool);
    volume.forget(held, 1);
    assert_eq!(
        volume.mknod(Ino(1), b"late", &new(FileKind::File)).unwrap_err(),
        Errno::EROFS
    );
    volume.syncfs().expect("nothing to write");
    // The threads of the background look again meanwhile.
    park_timeout(Duration::from_millis(300));
    assert!(bytes(&pool) == before, "written at rest");
    assert!(volume.store().orphans().unwrap().contains(&held.0));
    volume.begin_writing().expect("it goes on");
    let is_freed = || volume.store().orphans().unwrap().is_empty();
    assert!((0..500).any(|_| is_freed() || {
        park_timeout(Duration::from_millis(10));
        false
    }));
    super::make(&**volume, Ino(1), "later", FileKind::File).unwrap();
    volume.rest().expect("at rest again");
    let before = bytes(&pool);
    volume.unmount().expect("unmounted");
    assert!(bytes(&pool) == before, "written at the end");
    pool.finish();
}
