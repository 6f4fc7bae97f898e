//! The device behind a switch: once off, nothing reaches it any more (the shutdown ioctl; a power cut for tests).

mod injected;

pub use injected::Injected;
pub use injected::{DeviceFault, DeviceOp, Injection};

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
use keepfs_vault::locks::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// A device that can be turned off for good.
pub struct Switch {
    device: Arc<dyn Device>,
    off: AtomicBool,
    refused: Refused,
    injected: Injected,
    /// Held over each flush; whether one has failed (S-10.11).
    flush_failed: Mutex<bool>,
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
    told: Mutex<ToldRoom>,
}

/// What was told of the room under the pool.
#[derive(Default)]
struct ToldRoom {
    is_full: bool,
    /// When it was told last that there is none.
    at: Option<Instant>,
}

/// How often it is told that there is no room: writes to pages that have theirs may come between.
const TELL_AGAIN: Duration = Duration::from_secs(60);

impl ToldRoom {
    /// Whether this is to be told at `now`.
    fn is_news(&mut self, is_full: bool, now: Instant) -> bool {
        let is_soon = |told: Instant| now.saturating_duration_since(told) < TELL_AGAIN;
        if is_full == self.is_full || is_full && self.at.is_some_and(is_soon) {
            return false;
        }
        self.is_full = is_full;
        if is_full {
            self.at = Some(now);
        }
        true
    }
}

impl Refused {
    fn note_room<T>(&self, class: Class, done: &Result<T, DeviceError>) {
        let is_full = match done {
            Err(DeviceError::HostFull { .. }) => true,
            Ok(_) if class == Class::Data => false,
            _ => return,
        };
        // What was not told for a minute is looked at again by each write that finds no room.
        if !is_full && !self.no_room.load(Ordering::Relaxed) {
            return;
        }
        self.no_room.store(is_full, Ordering::Relaxed);
        if !self.told.lock().is_news(is_full, Instant::now()) {
            return;
        }
        match done {
            Err(error) => tracing::warn!(%error, "the file system under the pool is full: new data get ENOSPC"),
            Ok(_) => tracing::warn!("the file system under the pool has room again: data are written"),
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
            flush_failed: Mutex::new(false),
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
        let mut failed = self.flush_failed.lock();
        if *failed {
            return Err(DeviceError::Flush {
                device: self.describe(),
                source: std::io::Error::other("an earlier flush failed"),
            });
        }
        let done = counted(
            self.for_op(DeviceOp::Flush, PageNo(0)).and_then(|d| d.flush()),
            &self.refused.flushes,
        );
        // One that was opened for reading was not asked to keep anything.
        *failed = done.is_err() && !self.device.read_only();
        done
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

#[cfg(test)]
mod tests;
