//! Tests of hooks: each call is asked for and passed on, a refused one is not.

use super::*;
use keepfs_media::ram::RamDevice;
use parking_lot::Mutex;
use std::sync::Arc;

#[derive(Default)]
struct Diary {
    asked: Mutex<Vec<String>>,
    refuse: Mutex<bool>,
}

impl Diary {
    fn ask(&self, what: String) -> Result<(), DeviceError> {
        self.asked.lock().push(what);
        match *self.refuse.lock() {
            true => Err(DeviceError::NoDiscard { device: "test".into() }),
            false => Ok(()),
        }
    }
}

impl Hooks for Diary {
    fn before_read(&self, at: PageNo, bytes: usize) -> Result<(), DeviceError> {
        self.ask(format!("read {:?}", pages_of(at, bytes)))
    }
    fn before_write(&self, at: PageNo, bytes: usize, class: Class) -> Result<(), DeviceError> {
        self.ask(format!("write {class:?} {:?}", pages_of(at, bytes)))
    }
    fn before_flush(&self) -> Result<(), DeviceError> {
        self.ask("flush".into())
    }
    fn before_discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.ask(format!("discard {pages} at {at}"))
    }
}

fn use_all(device: &dyn Device) -> Vec<bool> {
    let page = [7; PAGE];
    vec![
        device.write(PageNo(3), &page, Class::Data).is_ok(),
        device.write_vectored(PageNo(4), &[&page, &page], Class::Plog).is_ok(),
        device.flush().is_ok(),
        device.read(PageNo(4), &mut [0; 2 * PAGE]).is_ok(),
        device.discard(PageNo(3), 1).is_ok(),
    ]
}

#[test]
fn every_call_is_asked_for_and_passed_on() {
    let device = Hooked::new(Arc::new(RamDevice::new(16)), Diary::default());
    assert_eq!(use_all(&device), [true; 5]);
    let asked = core::mem::take(&mut *device.hooks.asked.lock());
    let expected = [
        "write Data 3..4",
        "write Plog 4..5",
        "write Plog 5..6",
        "flush",
        "read 4..6",
        "discard 1 at 3",
    ];
    assert_eq!(asked, expected);
    let seen = device.counters();
    assert_eq!(seen, device.device.counters());
    assert_eq!((seen.of(Class::Plog).bytes, seen.flushes), (2 * PAGE as u64, 1));
    *device.hooks.refuse.lock() = true;
    assert_eq!(use_all(&device), [false; 5]);
    assert_eq!(device.counters(), seen, "what was refused was passed on");
}

struct Silent;
impl Hooks for Silent {}

#[test]
fn no_hook_is_no_difference() {
    let device = Hooked::new(RamDevice::new(16), Silent);
    assert_eq!(use_all(&device), [true; 5]);
    assert_eq!((device.pages(), device.read_only()), (16, false));
    assert_eq!(device.describe(), device.device.describe());
}

/// A device that says by whom it was asked, where others have an answer of their own.
struct Asked(RamDevice);

impl Asked {
    fn by<T>(device: &str) -> Result<T, DeviceError> {
        Err(DeviceError::Removed { device: device.into() })
    }
}

impl Device for Asked {
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(at, buf)
    }
    fn read_fresh(&self, _at: PageNo, _buf: &mut [u8]) -> Result<(), DeviceError> {
        Asked::by("read_fresh")
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.0.write(at, data, class)
    }
    fn write_vectored(&self, _at: PageNo, _parts: &[&[u8]], _class: Class) -> Result<(), DeviceError> {
        Asked::by("write_vectored")
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.0.flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.0.discard(at, pages)
    }
    fn provide(&self, _at: PageNo, _pages: u64) -> Result<(), DeviceError> {
        Asked::by("provide")
    }
    fn read_shared(&self, _at: PageNo, _buf: &mut [u8]) -> Result<(), DeviceError> {
        Asked::by("read_shared")
    }
    fn write_shared(&self, _at: PageNo, _data: &[u8], _class: Class) -> Result<(), DeviceError> {
        Asked::by("write_shared")
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn read_only(&self) -> bool {
        false
    }
    fn begin_writing(&self) -> Result<(), DeviceError> {
        Asked::by("begin_writing")
    }
}

/// A shared device has no answers of its own.
#[test]
fn a_shared_device_asks_the_device() {
    let device: Arc<dyn Device> = Arc::new(Asked(RamDevice::new(16)));
    let mut page = [0; PAGE];
    let answers = [
        Device::read_fresh(&device, PageNo(0), &mut page),
        Device::write_vectored(&device, PageNo(0), &[&[0; PAGE]], Class::Data),
        Device::provide(&device, PageNo(0), 1),
        Device::read_shared(&device, PageNo(0), &mut page),
        Device::write_shared(&device, PageNo(0), &[0; PAGE], Class::Data),
        Device::begin_writing(&device),
    ];
    let names = [
        "read_fresh",
        "write_vectored",
        "provide",
        "read_shared",
        "write_shared",
        "begin_writing",
    ];
    for (answer, name) in answers.into_iter().zip(names) {
        assert!(
            matches!(&answer, Err(DeviceError::Removed { device }) if device == name),
            "{name}: {answer:?}"
        );
    }
}
