//! A device that asks before it passes a call on, and tells when a write is done: what tests put between a pool and its medium
//! (stopping, counting, refusing) says only what it does besides.

use keepfs_media::{Class, Counters, Device, DeviceError, PAGE, PageNo};

/// What happens before a call reaches the device, and behind a write; it may wait, note, or refuse. Nothing by default.
pub trait Hooks: Send + Sync {
    /// Before `bytes` bytes from page `at` on are read.
    fn before_read(&self, at: PageNo, bytes: usize) -> Result<(), DeviceError> {
        let _ = (at, bytes);
        Ok(())
    }

    /// Before `bytes` bytes of a class are written from page `at` on.
    fn before_write(&self, at: PageNo, bytes: usize, class: Class) -> Result<(), DeviceError> {
        let _ = (at, bytes, class);
        Ok(())
    }

    /// When `bytes` bytes of a class were written from page `at` on.
    fn after_write(&self, at: PageNo, bytes: usize, class: Class) {
        let _ = (at, bytes, class);
    }

    /// Before a flush.
    fn before_flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Before `pages` pages from `at` on are discarded.
    fn before_discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        let _ = (at, pages);
        Ok(())
    }
}

/// A device behind its hooks.
pub struct Hooked<D, H> {
    /// What calls are passed on to.
    pub device: D,
    /// What is asked before.
    pub hooks: H,
}

impl<D: Device, H: Hooks> Hooked<D, H> {
    /// `device` behind `hooks`.
    pub fn new(device: D, hooks: H) -> Self {
        Self { device, hooks }
    }
}

impl<D: Device, H: Hooks> Device for Hooked<D, H> {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.hooks.before_read(at, buf.len())?;
        self.device.read(at, buf)
    }
    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.hooks.before_read(at, buf.len())?;
        self.device.read_fresh(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.hooks.before_write(at, data.len(), class)?;
        self.device.write(at, data, class)?;
        self.hooks.after_write(at, data.len(), class);
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.hooks.before_flush()?;
        self.device.flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.hooks.before_discard(at, pages)?;
        self.device.discard(at, pages)
    }
    fn provide(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.device.provide(at, pages)
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
        self.device.begin_writing()
    }
}

/// The pages that `bytes` bytes from page `at` on lie in.
pub fn pages_of(at: PageNo, bytes: usize) -> core::ops::Range<u64> {
    at.0..at.0.saturating_add((bytes / PAGE) as u64)
}

#[cfg(test)]
mod tests;
