//! A device that is written only while the claim of its pool holds (S-2.23).

use super::Guard;
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
use std::sync::Arc;

/// The device behind its [`Guard`].
pub struct Guarded {
    device: Arc<dyn Device>,
    guard: Arc<Guard>,
}

impl Guarded {
    /// `device` behind `guard`.
    pub fn new(device: Arc<dyn Device>, guard: Arc<Guard>) -> Guarded {
        Guarded { device, guard }
    }
}

impl Device for Guarded {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(at, buf)
    }
    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read_fresh(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.guard.permit()?;
        self.device.write(at, data, class)
    }
    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        self.guard.permit()?;
        self.device.write_vectored(at, parts, class)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()?;
        // What another machine has written over meanwhile was not made durable.
        self.guard.permit()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.guard.permit()?;
        self.device.discard(at, pages)
    }
    fn provide(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.device.provide(at, pages)
    }
    fn read_shared(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read_shared(at, buf)
    }
    fn write_shared(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.device.write_shared(at, data, class)
    }
    fn forget(&self) {
        self.device.forget();
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
    fn begin_writing(&self) -> Result<(), DeviceError> {
        self.device.begin_writing()?;
        self.guard.claim(super::claim::Why::Open)
    }
}
