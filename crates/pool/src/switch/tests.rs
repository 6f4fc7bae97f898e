//! Tests of the switch.

use super::{Switch, TELL_AGAIN, ToldRoom};
use core::time::Duration;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Device, DeviceError};
use keepfs_testkit::hook::{Hooked, Hooks};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
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

/// Its first flush fails, as soon as another one begins, or never will.
struct FirstFails {
    first: Mutex<Option<(Sender<()>, Receiver<()>)>>,
    others: Sender<()>,
}

impl Hooks for FirstFails {
    fn before_flush(&self) -> Result<(), DeviceError> {
        let first = self.first.lock().expect("lock").take();
        let Some((begun, others)) = first else {
            let _ = self.others.send(());
            return Ok(());
        };
        begun.send(()).expect("somebody waits for it");
        let _ = others.recv_timeout(Duration::from_millis(100));
        Err(DeviceError::Flush {
            device: "it".into(),
            source: std::io::Error::other("it fails once"),
        })
    }
}

/// S-10.11: neither a flush that runs beside one that fails, nor one behind it, is believed; the device tells it once.
#[test]
fn a_flush_that_failed_is_every_later_one() {
    let ((begun, has_begun), (others, other)) = (channel(), channel());
    let hooks = FirstFails {
        first: Mutex::new(Some((begun, other))),
        others,
    };
    let device = Switch::new(Arc::new(Hooked::new(RamDevice::new(1), hooks)));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| device.flush());
        has_begun.recv().expect("the first flush");
        device.flush().expect_err("it ran beside one that failed");
        first.join().expect("a thread").expect_err("it fails");
    });
    device.flush().expect_err("it comes behind one that failed");
}
