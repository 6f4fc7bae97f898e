//! What fault injection asks a pool for tests (S-2.8): where a structure lies in memory and at rest, and faults of its
//! device. Nothing here changes a byte; whoever injects does that from outside.

use crate::Store;
use crate::error::Error;
use crate::switch::{DeviceFault, DeviceOp, Injection};
use keepfs_flash::scratch::with_page;
use keepfs_format::MetaId;
use keepfs_format::map::LIVE;

/// Where a metablock lies now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Which.
    pub id: MetaId,
    /// Its frame; it was fetched if need be, and may move from here on.
    pub frame: u32,
    /// Where in this process everybody reads the first frame.
    pub arena: usize,
    /// Pages of its copies on the device, 0: none (yet).
    pub pages: [u64; 2],
}

impl Store {
    /// Where a metablock lies. With `at_rest` everything that waits for a checkpoint is written first, so that its pages
    /// are those that the next mount reads. Errors: `BadPool`: this is no pool for tests; there is no such metablock.
    pub fn structure(&self, id: MetaId, at_rest: bool) -> Result<Structure, Error> {
        self.for_tests()?;
        if at_rest {
            self.home.checkpoint(self)?;
        }
        let pin = self.fetch(id)?;
        with_page(|copy| self.verified_copy(&pin, copy))?;
        let entry = self.home.locate(self, id)?.filter(|entry| entry.state == LIVE);
        Ok(Structure {
            id,
            frame: pin.frame,
            arena: self.frames.arena.shown_address(),
            pages: entry.map_or([0; 2], |entry| [entry.first.get(), entry.second.get()]),
        })
    }

    /// The next `count` operations of this kind have a fault; its number. Errors: `BadPool`.
    pub fn inject_device(&self, op: DeviceOp, fault: DeviceFault, count: u64) -> Result<u64, Error> {
        self.for_tests()?;
        Ok(self.device.injected().add(op, fault, count))
    }

    /// Faults that still wait for their operations.
    pub fn injections(&self) -> Vec<Injection> {
        self.device.injected().all()
    }

    /// Takes back the one with this number, or all. How many there were.
    pub fn cancel_injections(&self, number: Option<u64>) -> usize {
        self.device.injected().cancel(number)
    }
}

#[cfg(test)]
mod tests;
