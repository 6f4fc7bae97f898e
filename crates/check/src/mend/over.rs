//! A pool as it would be behind a repair.

use crate::Page;
use crate::image::Image;
use keepfs_format::PAGE;
use std::collections::BTreeMap;

/// An image with pages written over it.
pub(super) struct Over<'i> {
    pub image: &'i dyn Image,
    pub pages: BTreeMap<u64, &'i Page>,
}

impl Image for Over<'_> {
    fn pages(&self) -> u64 {
        self.image.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String> {
        match self.pages.get(&page) {
            Some(bytes) => {
                buf.copy_from_slice(&bytes[..]);
                Ok(())
            }
            None => self.image.read(page, buf),
        }
    }
}
