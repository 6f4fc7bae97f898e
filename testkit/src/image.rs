//! The content of a device as a persistent value: copying it is one reference, changing a page of a
//! copy copies only the path to that page.
//!
//! A radix tree of shared nodes over shared pages; zero pages are not stored. Each image carries a
//! digest of its whole content, kept up with every change, so that equal contents are recognised at
//! once (equal contents have equal digests; unequal ones collide with probability about 2^-64 a pair).

mod digest;
mod tree;

use std::sync::Arc;

use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo};
use tree::Slot;

/// The shared, unchanging bytes of a page.
#[derive(Clone, Debug)]
pub struct Page(Arc<Content>);

#[derive(Debug)]
struct Content {
    bytes: [u8; PAGE],
    digest: u64,
}

impl Page {
    /// A page of these bytes.
    pub fn new(bytes: &[u8; PAGE]) -> Self {
        Self(Arc::new(Content {
            bytes: *bytes,
            digest: digest::of_page(bytes),
        }))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        &self.0.bytes
    }

    /// The digest of the bytes; 0 if and (but for chance) only if all are zero.
    pub fn digest(&self) -> u64 {
        self.0.digest
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.bytes() == other.bytes()
    }
}

impl Eq for Page {}

/// The content of a device of a fixed number of pages.
#[derive(Clone, Debug)]
pub struct Image {
    pages: u64,
    levels: u32,
    root: Slot,
    digest: u64,
}

impl Image {
    /// An image of `pages` zero pages.
    pub fn new(pages: u64) -> Self {
        Self {
            pages,
            levels: tree::levels_for(pages),
            root: Slot::Empty,
            digest: 0,
        }
    }

    /// Pages of the device.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The digest of the whole content.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The page at `at`; `None` if it is zero or beyond the end.
    pub fn get(&self, at: PageNo) -> Option<&Page> {
        if at.0 >= self.pages {
            return None;
        }
        self.root.get(self.levels, at.0)
    }

    /// The bytes at `at`; zeros where nothing is stored.
    pub fn bytes(&self, at: PageNo) -> &[u8; PAGE] {
        const ZEROS: &[u8; PAGE] = &[0; PAGE];
        self.get(at).map_or(ZEROS, Page::bytes)
    }

    /// Replaces the page at `at`; beyond the end nothing happens.
    pub fn set(&mut self, at: PageNo, page: Page) {
        if at.0 >= self.pages {
            return;
        }
        if page.digest() == 0 {
            return self.clear(at, 1);
        }
        let new = digest::at_place(at, page.digest());
        let old = self.root.set(self.levels, at.0, page);
        let old = old.map_or(0, |page| digest::at_place(at, page.digest()));
        self.digest ^= old ^ new;
    }

    /// Makes `count` pages from `at` on zero; those beyond the end do not matter.
    pub fn clear(&mut self, at: PageNo, count: u64) {
        let range = at.0..at.plus(count).0.min(self.pages);
        let digest = &mut self.digest;
        self.root.clear(self.levels, 0, &range, &mut |page, old| {
            *digest ^= digest::at_place(PageNo(page), old.digest());
        });
    }

    /// Changes the bytes of the page at `at`: damage for tests.
    pub fn change(&mut self, at: PageNo, change: impl FnOnce(&mut [u8; PAGE])) {
        let mut bytes = *self.bytes(at);
        change(&mut bytes);
        self.set(at, Page::new(&bytes));
    }

    /// Calls `visit` for every page that is not zero, in order.
    pub fn for_each(&self, mut visit: impl FnMut(PageNo, &Page)) {
        self.root
            .for_each(self.levels, 0, &mut |page, content| visit(PageNo(page), content));
    }

    /// The first page whose bytes differ from those of `other`, byte for byte.
    pub fn first_difference(&self, other: &Image) -> Option<PageNo> {
        let mut found: Option<PageNo> = None;
        for (a, b) in [(self, other), (other, self)] {
            a.for_each(|at, page| {
                if b.get(at) != Some(page) && found.is_none_or(|best| at < best) {
                    found = Some(at);
                }
            });
        }
        found
    }

    /// Reads the whole content of `device`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn capture(device: &dyn Device) -> Result<Self, DeviceError> {
        let mut image = Self::new(device.pages());
        let mut bytes = [0; PAGE];
        for page in 0..device.pages() {
            device.read(PageNo(page), &mut bytes)?;
            image.set(PageNo(page), Page::new(&bytes));
        }
        Ok(image)
    }

    /// Writes the whole content to `device`.
    ///
    /// # Errors
    /// Those of writing; `OutOfRange` if the device is smaller.
    pub fn restore(&self, device: &dyn Device) -> Result<(), DeviceError> {
        for page in (0..self.pages).map(PageNo) {
            device.write(page, self.bytes(page), Class::Data)?;
        }
        device.flush()
    }
}

#[cfg(test)]
mod tests;
