//! The device behind a switch: once off, nothing reaches it any more (the shutdown ioctl; a power cut for tests).

use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
use std::sync::Arc;

/// A device that can be turned off for good.
pub struct Switch {
    device: Arc<dyn Device>,
    off: AtomicBool,
}

impl Switch {
    /// A device that is on.
    pub fn new(device: Arc<dyn Device>) -> Switch {
        Switch {
            device,
            off: AtomicBool::new(false),
        }
    }

    /// From here on every operation fails.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }

    /// Whether it was turned off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    fn on(&self) -> Result<&dyn Device, DeviceError> {
        if self.is_off() {
            return Err(DeviceError::Removed {
                device: self.device.describe(),
            });
        }
        Ok(&*self.device)
    }
}

impl Device for Switch {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.on()?.read(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.on()?.write(at, data, class)
    }
    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        self.on()?.write_vectored(at, parts, class)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.on()?.flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.on()?.discard(at, pages)
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
    fn read_only(&self) -> bool {
        self.device.read_only()
    }
}
