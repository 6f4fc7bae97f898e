//! Block maps of every height, and what is between (S-7.1, S-5.4).

use super::*;
use keepfs_vfs::{Direct, Errno, FallocMode, SeekWhence, SetAttr};

/// Offsets whose pages need trees of height 0 to 7.
const OFFSETS: [u64; 9] = [
    5000,
    20_000,
    254 * 4096 + 1,
    254 * 254 * 4096 + 2,
    254 * 254 * 254 * 4096 + 3,
    254 * 254 * 254 * 254 * 4096 + 4,
    254 * 254 * 254 * 254 * 254 * 4096 + 5,
    254 * 254 * 254 * 254 * 254 * 254 * 4096 + 6,
    i64::MAX as u64 - 9000,
];

fn truncate(vfs: &dyn Vfs, ino: Ino, size: u64) {
    vfs.setattr(
        ino,
        &SetAttr {
            size: Some(size),
            ..SetAttr::default()
        },
    )
    .expect("truncate");
}

/// S-7.1: data at every height is read back, found by seek, and freed with all nodes.
#[test]
fn every_height_holds_data() {
    let pool = Pool::new(8192);
    let data: Vec<u8> = (0..8500).map(|i| (i % 251) as u8 | 1).collect();
    let vfs: &dyn Vfs = &*pool.volume;
    let ino = make(vfs, Ino::ROOT, "sparse", FileKind::File).expect("create");
    for offset in OFFSETS {
        write(vfs, ino, offset, &data);
    }
    let pool = pool.reopen();
    let vfs: &dyn Vfs = &*pool.volume;
    for offset in OFFSETS {
        assert!(read(vfs, ino, offset, data.len()) == data, "data at {offset}");
    }
    for pair in OFFSETS.windows(2).skip(1) {
        let hole = vfs.seek(ino, pair[0], SeekWhence::Hole).expect("hole");
        assert_eq!(hole, (pair[0] + data.len() as u64).next_multiple_of(4096));
        assert_eq!(
            vfs.seek(ino, hole, SeekWhence::Data).expect("data"),
            pair[1] / 4096 * 4096
        );
        assert_eq!(read(vfs, ino, hole, 5000), [0; 5000]);
    }
    assert_eq!(
        vfs.write(ino, i64::MAX as u64, b"x", WriteHow::default()),
        Err(Errno::EFBIG)
    );
    for offset in OFFSETS.iter().rev() {
        truncate(vfs, ino, *offset + 10);
        assert!(read(vfs, ino, *offset, 100) == data[..10]);
    }
    truncate(vfs, ino, 0);
    assert_eq!(vfs.getattr(ino).expect("getattr").blocks, 0);
    assert!(pool.volume.store().totals().nodes <= 1);
    pool.finish();
}

/// S-5.6: a file of many pages is freed in many transactions, also if it was cut while the power went.
#[test]
fn long_files_are_freed_in_steps() {
    let pool = Pool::new(32_768);
    let vfs: &dyn Vfs = &*pool.volume;
    let free = vfs.statfs().expect("statfs").blocks_free;
    let ino = make(vfs, Ino::ROOT, "long", FileKind::File).expect("create");
    let block = vec![7; 1 << 20];
    for i in 0..60 {
        write(vfs, ino, i << 20, &block);
    }
    vfs.fallocate(ino, FallocMode::PunchHole, 4096 * 10, 4096 * 3000)
        .expect("punch");
    vfs.fallocate(ino, FallocMode::Allocate, 4096 * 100, 4096 * 1000)
        .expect("allocate");
    assert_eq!(vfs.getattr(ino).expect("getattr").blocks / 8, 60 * 256 - 3000 + 1000);
    assert!(read(vfs, ino, 4096 * 100, 4096) == vec![0; 4096]);
    truncate(vfs, ino, 12_345);
    assert_eq!(vfs.getattr(ino).expect("getattr").blocks / 8, 4);
    truncate(vfs, ino, 100_000);
    let bytes = read(vfs, ino, 0, 100_000);
    assert!(bytes[..12_345].iter().all(|b| *b == 7) && bytes[12_345..].iter().all(|b| *b == 0));
    vfs.unlink(Ino::ROOT, b"long").expect("unlink");
    vfs.syncfs().expect("sync");
    let now = vfs.statfs().expect("statfs").blocks_free;
    // Metadata keeps some chunks it needed in between; the file itself had 15,360 pages.
    assert!(now + 2048 > free, "{free} pages were free, now {now}");
    pool.finish();
}
