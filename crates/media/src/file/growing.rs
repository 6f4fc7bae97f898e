//! How much of a device is used: less than it has, or more than it had, under its lock.

use super::{FileDevice, FileOptions, Kind};
use crate::device::check_range;
use crate::{DeviceError, PAGE_BYTES, PageNo, sys};
use std::io;

impl FileDevice {
    /// Uses the first `pages` pages only.
    ///
    /// # Errors
    /// `OutOfRange` if there are fewer.
    pub fn limited(mut self, pages: u64) -> Result<Self, DeviceError> {
        check_range(self.pages, PageNo(0), pages)?;
        self.pages = pages;
        Ok(self)
    }

    /// The same device with so many pages. A regular file that has fewer gets longer: sparse, durable, and with the room that is kept
    /// of its file system behind its new end (S-2.14). The locks are those of both, for as long as one of them is there.
    ///
    /// # Errors
    /// `OutOfRange` for a block device that has fewer; `Open` if the file cannot have so many; `ReadOnly`.
    pub fn lengthened(&self, pages: u64) -> Result<Self, DeviceError> {
        let file = self.writable()?;
        let failed = |source| DeviceError::Open {
            what: "lengthen",
            path: self.path.clone(),
            source,
        };
        let bytes = pages
            .checked_mul(PAGE_BYTES)
            .ok_or_else(|| failed(io::ErrorKind::FileTooLarge.into()))?;
        let ends = file.metadata().map_err(failed)?.len();
        if self.kind == Kind::Regular && ends < bytes {
            file.set_len(bytes).map_err(failed)?;
            // What was kept behind the end before would be in the middle, allocated and unused.
            let _ = sys::punch_hole(file, ends.next_multiple_of(PAGE_BYTES), bytes - ends);
            file.sync_all().map_err(failed)?;
        }
        let options = FileOptions {
            direct: self.bounce.is_some(),
        };
        FileDevice::adopt(&self.path, self.hand()?, self.mode, options)?.limited(pages)
    }

    /// A regular file that [`FileDevice::lengthened`] made longer has its pages of before again, and its file system what it gave.
    ///
    /// # Errors
    /// `Open` if that cannot be; `ReadOnly`.
    pub fn shortened(&self) -> Result<(), DeviceError> {
        if self.kind != Kind::Regular {
            return Ok(());
        }
        let bytes = self.pages * PAGE_BYTES;
        self.writable()?.set_len(bytes).map_err(|source| DeviceError::Open {
            what: "shorten",
            path: self.path.clone(),
            source,
        })
    }
}
