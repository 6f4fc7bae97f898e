//! The flash home as a store drives it: what of it runs transactions, or hands out pages and numbers. All else is
//! [`keepfs_flash`]'s.

use crate::error::Error;
use core::ops::Deref;
use keepfs_format::superblock::Superblock;
use keepfs_frames::Frames;

/// A flash home.
pub struct Flash(keepfs_flash::Flash);

impl Deref for Flash {
    type Target = keepfs_flash::Flash;

    #[inline]
    fn deref(&self) -> &keepfs_flash::Flash {
        &self.0
    }
}

impl Flash {
    /// The home that a superblock tells of, with nothing behind it. Errors: there is no memory.
    pub fn of(sb: &Superblock, frames: &Frames) -> Result<Flash, Error> {
        keepfs_flash::Flash::of(sb, frames).map(Flash)
    }
}
