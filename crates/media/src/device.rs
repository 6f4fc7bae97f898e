//! The device interface: whole pages, explicit flushes, an error instead of a panic.

use std::fmt;
use std::sync::Arc;

use crate::{Class, Counters, DeviceError, PAGE};

/// The number of a page of a device, counted from its start (S-1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u64);

impl PageNo {
    /// The page `count` pages further; saturates, so that a range check refuses what overflows.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for PageNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A block device of pages.
///
/// A write is visible to every later read at once, but survives a power cut for sure only when a
/// [`flush`](Device::flush) that began after it has returned without error. After a flush failed,
/// nothing written since the last good one may be relied on.
///
/// Buffers are whole pages: a length that is no multiple of [`PAGE`] is
/// [`DeviceError::NotWholePages`], pages beyond the end are [`DeviceError::OutOfRange`].
pub trait Device: Send + Sync {
    /// Pages of the device.
    fn pages(&self) -> u64;

    /// Fills `buf` from page `at` on. What was never written reads as zeros or as anything.
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// The same from the medium itself if that can be told from what the system remembers of it (a scrub).
    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read(at, buf)
    }

    /// Writes `data` from page `at` on, counted as `class`.
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError>;

    /// Writes `parts` (whole pages each) one behind the other from page `at` on.
    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        let mut at = at;
        for part in parts {
            self.write(at, part, class)?;
            at = at.plus((part.len() / PAGE) as u64);
        }
        Ok(())
    }

    /// Makes every write that returned before this call durable.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Tells the device that `pages` pages from `at` on are not needed; what they read as until they
    /// are written again is not defined.
    ///
    /// # Errors
    /// [`DeviceError::NoDiscard`] if it cannot be told such things, and nothing happened.
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError>;

    /// Has room for `pages` pages from `at` on, so that writing them cannot fail for want of it, where the device is a file that gets
    /// room as it is written.
    ///
    /// # Errors
    /// [`DeviceError::HostFull`] if there is none; others if the device fails.
    fn provide(&self, _at: PageNo, _pages: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Fills `buf` from page `at` on as other machines that share the device see it now, past all that waits in this one.
    fn read_shared(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read_fresh(at, buf)
    }

    /// Writes `data` from page `at` on so that other machines that share the device see it when this returns, whatever else waits
    /// to be written.
    fn write_shared(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.write(at, data, class)?;
        self.flush()
    }

    /// What the system remembers of it is forgotten, as far as that can be: another machine may have written it.
    fn forget(&self) {}

    /// What was read and written so far.
    fn counters(&self) -> Counters;

    /// A name for messages, for example the path.
    fn describe(&self) -> String;

    /// Whether writes are refused.
    fn read_only(&self) -> bool;

    /// From here on writes are taken: what was opened for reading becomes as if opened for writing, alone.
    ///
    /// # Errors
    /// Those of opening for writing; then it is as before, unless it says [`DeviceError::Removed`].
    /// [`DeviceError::ReadOnly`] if it can never be written.
    fn begin_writing(&self) -> Result<(), DeviceError> {
        match self.read_only() {
            false => Ok(()),
            true => Err(DeviceError::ReadOnly {
                device: self.describe(),
            }),
        }
    }
}

/// A shared device is one.
impl<D: Device + ?Sized> Device for Arc<D> {
    fn pages(&self) -> u64 {
        (**self).pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read(at, buf)
    }
    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read_fresh(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        (**self).write(at, data, class)
    }
    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        (**self).write_vectored(at, parts, class)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        (**self).flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        (**self).discard(at, pages)
    }
    fn provide(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        (**self).provide(at, pages)
    }
    fn read_shared(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read_shared(at, buf)
    }
    fn write_shared(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        (**self).write_shared(at, data, class)
    }
    fn forget(&self) {
        (**self).forget();
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn describe(&self) -> String {
        (**self).describe()
    }
    fn read_only(&self) -> bool {
        (**self).read_only()
    }
    fn begin_writing(&self) -> Result<(), DeviceError> {
        (**self).begin_writing()
    }
}

/// Checks that `bytes` from page `at` on are whole pages of a device of `pages` pages.
pub fn check_span(pages: u64, at: PageNo, bytes: usize) -> Result<(), DeviceError> {
    if !bytes.is_multiple_of(PAGE) {
        return Err(DeviceError::NotWholePages { page: at, bytes });
    }
    check_range(pages, at, (bytes / PAGE) as u64)
}

/// Checks that `count` pages from `at` on lie in a device of `pages` pages.
pub fn check_range(pages: u64, at: PageNo, count: u64) -> Result<(), DeviceError> {
    match at.0.checked_add(count) {
        Some(end) if end <= pages => Ok(()),
        _ => Err(DeviceError::OutOfRange { page: at, count, pages }),
    }
}
