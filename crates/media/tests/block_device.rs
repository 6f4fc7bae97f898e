//! A real block device: size, exclusive use, discard. It needs a scratch device, named by the variable
//! `KEEPFS_TEST_BLOCK_DEVICE` (everything on it is overwritten), for example a loop device over a file;
//! without it nothing is proved here and the test says so.

use std::io::Write;
use std::path::PathBuf;

use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo, mounts};

fn scratch() -> Option<PathBuf> {
    let path = std::env::var_os("KEEPFS_TEST_BLOCK_DEVICE").map(PathBuf::from);
    if path.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: needs KEEPFS_TEST_BLOCK_DEVICE, as `cargo xtask suite block_device` sets it"
        );
    }
    path
}

#[test]
fn a_block_device_is_used_alone_and_whole() {
    let Some(path) = scratch() else {
        return;
    };
    for direct in [false, true] {
        let options = FileOptions { direct };
        let device = FileDevice::open(&path, OpenMode::ReadWrite, options).unwrap();
        assert!(device.is_block_device());
        let last = PageNo(device.pages() - 1);
        let data = vec![0xA5; PAGE];
        device.write(last, &data, Class::Data).unwrap();
        device.flush().unwrap();
        let mut seen = vec![0; PAGE];
        device.read(last, &mut seen).unwrap();
        assert_eq!(seen, data);
        device.discard(last, 1).unwrap();
        let beyond = device.read(last.plus(1), &mut seen);
        assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
        let second = FileDevice::open(&path, OpenMode::ReadWrite, options);
        assert!(matches!(second, Err(DeviceError::Busy { .. })));
    }
    assert_eq!(mounts::users_of(&path).unwrap(), []);
}
