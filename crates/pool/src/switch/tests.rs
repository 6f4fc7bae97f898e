//! What is told of a full host, and of flushes that fail.

use super::{DeviceFault, DeviceOp, Switch, TELL_AGAIN, ToldRoom};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Device, DeviceError};
use std::sync::Arc;
use std::time::Instant;

/// S-2.14: the first time it is told at once, in a flood once a minute; that there is room only where it was told that there is none.
#[test]
fn a_full_host_is_told_once_a_minute() {
    let (mut told, now) = (ToldRoom::default(), Instant::now());
    assert!(!told.is_news(false, now));
    assert!(told.is_news(true, now) && !told.is_news(true, now));
    assert!(told.is_news(false, now) && !told.is_news(false, now));
    assert!(!told.is_news(true, now) && !told.is_news(false, now));
    assert!(told.is_news(true, now + TELL_AGAIN) && told.is_news(false, now + TELL_AGAIN));
}

/// S-10.11.
#[test]
fn a_flush_that_failed_is_every_later_one() {
    let device = Switch::new(Arc::new(RamDevice::new(16)));
    device.flush().unwrap();
    device.injected().add(DeviceOp::Flush, DeviceFault::Eio, 1);
    for _ in 0..3 {
        assert!(matches!(device.flush(), Err(DeviceError::Flush { .. })));
    }
}
