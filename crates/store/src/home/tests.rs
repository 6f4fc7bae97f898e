//! A pool asks for a home that there is not.

use super::*;
use crate::FormatOptions;
use keepfs_media::ram::RamDevice;

/// Neither created nor opened, and told why; the device stays as it is. S-2.5
#[test]
fn persistent_memory_is_refused() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    let create = FormatOptions {
        home: HomeKind::Nvm,
        ..FormatOptions::default()
    };
    let why = Store::format(device.clone(), &create).expect_err("no such home");
    assert!(why.to_string().contains("persistent memory"), "{why}");
    assert!(Pool::on(&*device).is_err(), "something was written");

    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let open = StoreOptions {
        home: HomeKind::Nvm,
        ..StoreOptions::default()
    };
    let why = Store::open(device.clone(), &open).err().expect("no such home");
    assert!(why.to_string().contains("persistent memory"), "{why}");
    Store::open(device, &StoreOptions::default()).expect("it is as it was");
}
