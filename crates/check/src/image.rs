//! What is checked: something that has numbered pages.

use crate::Page;
use keepfs_format::PAGE;

/// A pool's device, an image file or a crash state, read page by page.
pub trait Image {
    /// Number of whole pages.
    fn pages(&self) -> u64;
    /// Fills `buf` with page `page`.
    ///
    /// # Errors
    /// What the medium says when the page cannot be read, or that it does not exist; the walk takes it for a bad page.
    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String>;
}

/// The bytes of a whole device in memory. A cut page at the end does not count.
impl Image for &[u8] {
    fn pages(&self) -> u64 {
        (self.len() / PAGE) as u64
    }

    fn read(&self, page: u64, buf: &mut Page) -> Result<(), String> {
        let start = usize::try_from(page).ok().and_then(|page| page.checked_mul(PAGE));
        let bytes = start.and_then(|start| self.get(start..start.checked_add(PAGE)?));
        buf.copy_from_slice(bytes.ok_or("no such page")?);
        Ok(())
    }
}

impl Image for Vec<u8> {
    fn pages(&self) -> u64 {
        self.as_slice().pages()
    }

    fn read(&self, page: u64, buf: &mut Page) -> Result<(), String> {
        self.as_slice().read(page, buf)
    }
}
