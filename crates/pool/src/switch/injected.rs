//! Errors and waiting times that are put before a device's operations on purpose (`keepfs inject device`; S-2.8).

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use keepfs_media::{Access, DeviceError, PageNo};
use parking_lot::Mutex;

/// An operation of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceOp {
    /// Reading pages.
    Read,
    /// Writing pages.
    Write,
    /// Making writes durable.
    Flush,
}

/// What happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceFault {
    /// It fails with EIO and does nothing.
    Eio,
    /// It takes so much longer.
    Latency(Duration),
}

/// A fault that waits for its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Injection {
    /// Its number, for whoever takes it back.
    pub number: u64,
    /// Which operations.
    pub op: DeviceOp,
    /// What happens to them.
    pub fault: DeviceFault,
    /// To how many more.
    pub left: u64,
}

/// The faults of a device.
#[derive(Default)]
pub struct Injected {
    any: AtomicBool,
    waiting: Mutex<(u64, Vec<Injection>)>,
}

impl Injected {
    /// One more. Its number.
    pub fn add(&self, op: DeviceOp, fault: DeviceFault, count: u64) -> u64 {
        let mut waiting = self.waiting.lock();
        waiting.0 += 1;
        let number = waiting.0;
        waiting.1.push(Injection {
            number,
            op,
            fault,
            left: count,
        });
        self.any.store(true, Ordering::Release);
        number
    }

    /// Those that wait.
    pub fn all(&self) -> Vec<Injection> {
        self.waiting.lock().1.clone()
    }

    /// Takes one back, or all. How many.
    pub fn cancel(&self, number: Option<u64>) -> usize {
        let mut waiting = self.waiting.lock();
        let before = waiting.1.len();
        waiting
            .1
            .retain(|one| number.is_some_and(|number| one.number != number));
        self.any.store(!waiting.1.is_empty(), Ordering::Release);
        before - waiting.1.len()
    }

    /// Before an operation. Errors: those that were asked for.
    pub fn before(&self, op: DeviceOp, at: PageNo, device: impl Fn() -> String) -> Result<(), DeviceError> {
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        match self.take(op) {
            None => Ok(()),
            Some(DeviceFault::Latency(time)) => {
                std::thread::sleep(time);
                Ok(())
            }
            Some(DeviceFault::Eio) => {
                let source = std::io::Error::from_raw_os_error(libc::EIO);
                let device = device();
                Err(match op {
                    DeviceOp::Flush => DeviceError::Flush { device, source },
                    DeviceOp::Read | DeviceOp::Write => DeviceError::Io {
                        what: if op == DeviceOp::Read {
                            Access::Read
                        } else {
                            Access::Write
                        },
                        page: at,
                        device,
                        source,
                    },
                })
            }
        }
    }

    fn take(&self, op: DeviceOp) -> Option<DeviceFault> {
        let mut waiting = self.waiting.lock();
        let one = waiting.1.iter_mut().find(|one| one.op == op)?;
        one.left -= 1;
        let fault = one.fault;
        waiting.1.retain(|one| one.left > 0);
        self.any.store(!waiting.1.is_empty(), Ordering::Release);
        Some(fault)
    }
}
