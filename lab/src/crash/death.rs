//! The death of a server at a call of its device, or between two: what the device has then, and the memory that a keeper
//! holds (SPEC section 16). The dying server does not notice: it goes on with its own device and its own memory, and tells so
//! what would have become of what it was doing.

use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo};
use keepfs_store::Remains;
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_testkit::sim::{Event, SimDevice};
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What a dead server left.
pub struct Died {
    /// The device as it was, all that was written included, flushed or not.
    pub device: SimDevice,
    /// What its keeper holds.
    pub memory: Remains,
    /// It was at a step; else between two.
    pub at_step: bool,
}

/// The device below whom a server dies.
pub type MortalDevice<D> = Hooked<D, Deaths>;

/// Where it dies.
pub struct Deaths {
    device: Arc<SimDevice>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    keeper: Remains,
    /// Calls before the death.
    left: Option<u64>,
    at_step: bool,
    died: Option<io::Result<Died>>,
}

impl Deaths {
    /// None is planned. All calls reach `device`.
    pub fn over(device: Arc<SimDevice>) -> Deaths {
        Deaths {
            device,
            state: Mutex::default(),
        }
    }

    /// The keeper holds this from now on. Errors: there are no descriptors left.
    pub fn keep(&self, memory: Remains) {
        self.state.lock().keeper = memory;
    }

    /// The server dies before write, flush or discard number `after` from now on.
    pub fn plan(&self, after: u64) {
        self.state.lock().left = Some(after);
    }

    /// No death is planned any more.
    pub fn forget(&self) {
        self.state.lock().left = None;
    }

    /// Whether a step is under way from now on.
    pub fn set_at_step(&self, at_step: bool) {
        self.state.lock().at_step = at_step;
    }

    /// Whether the server has died.
    pub fn has_died(&self) -> bool {
        self.state.lock().died.is_some()
    }

    /// What the server left at its death, which is now if it was not before. No death is planned any more. Errors: its memory
    /// cannot be copied.
    pub fn take(&self) -> io::Result<Died> {
        let mut state = self.state.lock();
        state.left = None;
        match state.died.take() {
            Some(died) => died,
            None => self.die(&state),
        }
    }

    fn die(&self, state: &State) -> io::Result<Died> {
        let mut memory = Remains::default();
        for (name, file) in state.keeper.named() {
            memory.add(name, copy(file)?);
        }
        Ok(Died {
            device: self.device.fork(),
            memory,
            at_step: state.at_step,
        })
    }

    fn pass(&self) {
        let mut state = self.state.lock();
        match state.left {
            Some(0) => {
                state.left = None;
                state.died = Some(self.die(&state));
            }
            Some(left) => state.left = Some(left - 1),
            None => {}
        }
    }
}

impl Hooks for Deaths {
    fn before_write(&self, _: PageNo, _: usize, _: Class) -> Result<(), DeviceError> {
        self.pass();
        Ok(())
    }
    fn before_flush(&self) -> Result<(), DeviceError> {
        self.pass();
        Ok(())
    }
    fn before_discard(&self, _: PageNo, _: u64) -> Result<(), DeviceError> {
        self.pass();
        Ok(())
    }
}

/// Another memory file with the same bytes and seals.
fn copy(memory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let len = rustix::fs::fstat(memory)?.st_size as u64;
    let other = rustix::fs::memfd_create("keepfs-left", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&other, len)?;
    let mut buf = vec![0; 16 * PAGE];
    let mut at = 0;
    while at < len {
        let Ok(start) = rustix::fs::seek(memory, SeekFrom::Data(at)) else {
            break; // Only holes are left.
        };
        at = rustix::fs::seek(memory, SeekFrom::Hole(start))?;
        let mut from = start;
        while from < at {
            let piece = buf.len().min((at - from) as usize);
            let count = rustix::io::pread(memory, &mut buf[..piece], from)?;
            if count == 0 || rustix::io::pwrite(&other, &buf[..count], from)? != count {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            from += count as u64;
        }
    }
    rustix::fs::fcntl_add_seals(&other, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(other)
}

/// Does on `device` what of the call that a server died in was done: `part` pages of a write at most; a flush or a discard if
/// `part` is odd. `next` is what the call would have done.
pub fn finish(device: &SimDevice, next: Option<&Event>, part: u64) -> Result<(), DeviceError> {
    match next {
        Some(Event::Write { at, pages, class }) => {
            let count = part as usize % (pages.len() + 1);
            let bytes: Vec<u8> = pages[..count].iter().flat_map(|page| *page.bytes()).collect();
            match count {
                0 => Ok(()),
                _ => device.write(*at, &bytes, *class),
            }
        }
        Some(Event::Flush) if part % 2 == 1 => device.flush(),
        Some(Event::Discard { at, pages }) if part % 2 == 1 => device.discard(*at, *pages),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
