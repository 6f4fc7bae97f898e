//! Injection is refused without the flag, and hits what it names with it (S-2.8).

use crate::Store;
use crate::{DeviceFault, DeviceOp};
use crate::{FormatOptions, StoreOptions};
use keepfs_format::bitmap::TOTALS;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Device as _, PageNo};
use std::sync::Arc;

fn pool(test: bool) -> Arc<Store> {
    let device = Arc::new(RamDevice::new(4096));
    let format = FormatOptions {
        test,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

/// S-2.8: the flag is the pool's, for ever, and without it nothing is injected.
#[test]
fn only_a_pool_for_tests_takes_faults() {
    let store = pool(false);
    assert!(!store.pool().is_test);
    let refused = store.structure(TOTALS, false).expect_err("refused").to_string();
    assert!(refused.contains("keepfs create --test"), "{refused}");
    assert!(store.inject_device(DeviceOp::Flush, DeviceFault::Eio, 1).is_err());
    assert!(pool(true).pool().is_test);
}

/// The frame that is told holds the structure, and so do the pages.
#[test]
fn a_structure_is_where_it_is_told_to_be() {
    let store = pool(true);
    let told = store.structure(TOTALS, true).expect("told");
    assert_eq!(store.frames.cache.peek(TOTALS).expect("cached").frame, told.frame);
    for page in told.pages {
        let mut bytes = [0; keepfs_format::PAGE];
        store.ground.device.injected().cancel(None);
        keepfs_media::Device::read(&*store.ground.device, keepfs_media::PageNo(page), &mut bytes).expect("read");
        assert_eq!(bytes[8..16], TOTALS.0.to_le_bytes());
    }
}

/// A fault happens as often as was asked, to its operation only, and can be taken back.
#[test]
fn device_faults_are_counted() {
    let store = pool(true);
    let device = &*store.ground.device;
    let read = || device.read(PageNo(0), &mut [0; keepfs_format::PAGE]);
    let number = store.inject_device(DeviceOp::Read, DeviceFault::Eio, 2).expect("armed");
    assert_eq!(store.injections().len(), 1);
    assert!(device.flush().is_ok());
    assert!(read().is_err() && read().is_err());
    assert!(read().is_ok() && store.injections().is_empty());
    store.inject_device(DeviceOp::Read, DeviceFault::Eio, 1).expect("armed");
    assert_eq!(store.cancel_injections(Some(number)), 0);
    assert_eq!(store.cancel_injections(None), 1);
    assert!(read().is_ok());
}
