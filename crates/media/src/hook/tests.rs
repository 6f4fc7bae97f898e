//! Tests of hooks: each call is asked for and passed on, a refused one is not.

use super::*;
use crate::ram::RamDevice;
use parking_lot::Mutex;

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
