//! A sparse block device in memory: for tests and for measuring everything but the medium.

use std::collections::HashMap;

use parking_lot::RwLock;

use crate::counters::Meter;
use crate::device::{check_range, check_span};
use crate::{Class, Counters, Device, DeviceError, PAGE, PAGE_BYTES, PageNo};

/// Parts of the page table, each with its own lock.
const SHARDS: u64 = 64;

type Pages = HashMap<u64, Box<[u8; PAGE]>>;

/// A device in memory; pages never written, or discarded, are zeros and take no space.
pub struct RamDevice {
    pages: u64,
    shards: Vec<RwLock<Pages>>,
    meter: Meter,
}

impl RamDevice {
    /// A device of `pages` zero pages.
    pub fn new(pages: u64) -> Self {
        Self {
            pages,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            meter: Meter::default(),
        }
    }

    /// The same with memory for the first `count` pages there already, so that writing one of them costs a copy and not
    /// the kernel's work of giving memory: for measuring.
    pub fn with_memory(pages: u64, count: u64) -> Self {
        let device = Self::new(pages);
        (0..count.min(pages)).for_each(|page| device.write_page(page, &[0; PAGE]));
        device
    }

    /// Pages that take space, for tests of discarding.
    pub fn stored(&self) -> u64 {
        self.shards.iter().map(|s| s.read().len() as u64).sum()
    }

    fn shard(&self, page: u64) -> &RwLock<Pages> {
        &self.shards[(page % SHARDS) as usize]
    }

    fn read_page(&self, page: u64, into: &mut [u8; PAGE]) {
        match self.shard(page).read().get(&page) {
            Some(bytes) => *into = **bytes,
            None => into.fill(0),
        }
    }

    fn write_page(&self, page: u64, bytes: &[u8; PAGE]) {
        let mut shard = self.shard(page).write();
        match shard.get_mut(&page) {
            Some(stored) => **stored = *bytes,
            None => {
                shard.insert(page, Box::new(*bytes));
            }
        }
    }
}

impl Device for RamDevice {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_span(self.pages, at, buf.len())?;
        for (page, into) in (at.0..).zip(buf.as_chunks_mut().0) {
            self.read_page(page, into);
        }
        self.meter.read(buf.len());
        Ok(())
    }

    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        check_span(self.pages, at, data.len())?;
        for (page, bytes) in (at.0..).zip(data.as_chunks().0) {
            self.write_page(page, bytes);
        }
        self.meter.write(class, data.len());
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.meter.flush();
        Ok(())
    }

    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        check_range(self.pages, at, pages)?;
        for page in at.0..at.0 + pages {
            self.shard(page).write().remove(&page);
        }
        self.meter.discard(pages * PAGE_BYTES);
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.meter.snapshot()
    }

    fn describe(&self) -> String {
        format!("memory device of {} pages", self.pages)
    }

    fn read_only(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
