//! The device behind a switch: once off, nothing reaches it any more (the shutdown ioctl; a power cut for tests).

mod injected;

pub(crate) use injected::Injected;
pub use injected::{DeviceFault, DeviceOp, Injection};

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
use std::sync::Arc;

/// A device that can be turned off for good.
pub struct Switch {
    device: Arc<dyn Device>,
    off: AtomicBool,
    refused: Refused,
    injected: Injected,
}

/// Operations that the device failed, since the pool was opened.
#[derive(Default)]
pub struct Refused {
    /// Reads.
    pub reads: AtomicU64,
    /// Writes.
    pub writes: AtomicU64,
    /// Flushes.
    pub flushes: AtomicU64,
    /// The file system under the pool had no room for the last file data that were written (S-2.14).
    pub no_room: AtomicBool,
}

impl Refused {
    fn note_room<T>(&self, class: Class, done: &Result<T, DeviceError>) {
        let is_full = match done {
            Err(DeviceError::HostFull { .. }) => true,
            Ok(_) if class == Class::Data => false,
            _ => return,
        };
        if self.no_room.load(Ordering::Relaxed) != is_full {
            self.no_room.store(is_full, Ordering::Relaxed);
        }
    }
}

impl Switch {
    /// A device that is on.
    pub fn new(device: Arc<dyn Device>) -> Switch {
        Switch {
            device,
            off: AtomicBool::new(false),
            refused: Refused::default(),
            injected: Injected::default(),
        }
    }

    /// What it failed.
    pub fn refused(&self) -> &Refused {
        &self.refused
    }

    /// From here on every operation fails.
    pub fn turn_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }

    /// Whether it was turned off.
    pub fn is_off(&self) -> bool {
        self.off.load(Ordering::SeqCst)
    }

    /// Faults put before its operations on purpose.
    pub fn injected(&self) -> &Injected {
        &self.injected
    }

    /// The device, if it is on and this operation shall not fail.
    fn for_op(&self, op: DeviceOp, at: PageNo) -> Result<&dyn Device, DeviceError> {
        let device = self.on()?;
        self.injected.before(op, at, || device.describe())?;
        Ok(device)
    }

    fn on(&self) -> Result<&dyn Device, DeviceError> {
        if self.is_off() {
            return Err(DeviceError::Removed {
                device: self.device.describe(),
            });
        }
        Ok(&*self.device)
    }
}

fn counted<T>(result: Result<T, DeviceError>, failed: &AtomicU64) -> Result<T, DeviceError> {
    // A full file system under the pool is no failure of the device (S-2.14).
    let is_failure = result
        .as_ref()
        .is_err_and(|error| !matches!(error, DeviceError::HostFull { .. }));
    failed.fetch_add(u64::from(is_failure), Ordering::Relaxed);
    result
}

impl Device for Switch {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        counted(
            self.for_op(DeviceOp::Read, at).and_then(|d| d.read(at, buf)),
            &self.refused.reads,
        )
    }
    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        counted(
            self.for_op(DeviceOp::Read, at).and_then(|d| d.read_fresh(at, buf)),
            &self.refused.reads,
        )
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        let done = self.for_op(DeviceOp::Write, at).and_then(|d| d.write(at, data, class));
        self.refused.note_room(class, &done);
        counted(done, &self.refused.writes)
    }
    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        let done = self
            .for_op(DeviceOp::Write, at)
            .and_then(|d| d.write_vectored(at, parts, class));
        self.refused.note_room(class, &done);
        counted(done, &self.refused.writes)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        counted(
            self.for_op(DeviceOp::Flush, PageNo(0)).and_then(|d| d.flush()),
            &self.refused.flushes,
        )
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.on()?.discard(at, pages)
    }
    fn provide(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.on()?.provide(at, pages)
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
        self.on()?.begin_writing()
    }
}
