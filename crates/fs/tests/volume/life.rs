//! Lives of one inode number (S-5.5).

use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{FormatOptions, StoreOptions};
use keepfs_vfs::{Direct, Errno, Ino, NewInode, Vfs, WriteHow};
use std::collections::HashMap;
use std::sync::Arc;

/// S-5.5: a number that is used again has a greater generation, nothing of its former life, and the old handle is stale.
#[test]
fn a_number_used_again_begins_a_new_life() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = StoreOptions {
        background: false,
        ..StoreOptions::default()
    };
    let options = VolumeOptions {
        store,
        background: false,
        ..VolumeOptions::default()
    };
    let mut volume = Volume::open(device.clone(), &options).expect("open");
    let new = NewInode {
        mode: 0o100600,
        umask: 0,
        uid: 7,
        gid: 7,
        rdev: 0,
    };
    let mut lives: HashMap<Ino, u64> = HashMap::new();
    let mut again = 0;
    for round in 0..40 {
        for i in 0..50u32 {
            let name = format!("{round}-{i}");
            let attr = volume.mknod(Ino::ROOT, name.as_bytes(), &new).expect("create").attr;
            assert_eq!((attr.size, attr.nlink, attr.uid), (0, 1, 7));
            if let Some(before) = lives.insert(attr.ino, attr.generation) {
                assert!(attr.generation > before, "inode {:?}", attr.ino);
                again += 1;
            }
            volume
                .write(attr.ino, 0, &[1; 5000], WriteHow::default())
                .expect("write");
            volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlink");
            volume.forget(attr.ino, 1);
        }
        volume.syncfs().expect("sync");
        // A new mount looks for free numbers from the start.
        volume.unmount().expect("unmount");
        drop(volume);
        volume = Volume::open(device.clone(), &options).expect("open");
    }
    assert!(again > 0, "no number was used again");
    let gone = lives.keys().next().copied().expect("a number");
    assert_eq!(volume.getattr(gone), Err(Errno::ESTALE));
}
