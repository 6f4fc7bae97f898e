//! A device over a crash state that notes which pages of the state were read, in order: all that a recovery, the walk
//! of its tree and the walk of `audit` can depend on.

use core::ops::Range;
use keepfs_media::{Class, Device, DeviceError, PageNo};
use keepfs_testkit::hook::{Hooked, Hooks, pages_of};
use keepfs_testkit::image::{Image, Page};
use keepfs_testkit::sim::SimDevice;
use parking_lot::Mutex;

/// One read: which page, and the digest of what was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// The page.
    pub page: u64,
    /// Digest of its content; 0 for zeros.
    pub digest: u64,
}

/// What was read of the state, each page once; what was written first is not of the state any more.
struct Notes {
    /// One bit a page: read or written before.
    known: Vec<u64>,
    reads: Vec<Read>,
}

impl Notes {
    /// Whether this is the first access to `page`.
    fn first(&mut self, page: u64) -> bool {
        let Some(word) = self.known.get_mut((page / 64) as usize) else {
            return false;
        };
        let bit = 1 << (page % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }
}

/// A simulated device that notes.
pub type TraceDevice = Hooked<SimDevice, Trace>;

/// The state and what was read of it.
pub struct Trace {
    state: Image,
    notes: Mutex<Notes>,
}

/// The digest of a page of an image.
pub fn digest_at(image: &Image, page: u64) -> u64 {
    image.get(PageNo(page)).map_or(0, Page::digest)
}

/// A device that holds `state`.
pub fn over(state: Image) -> TraceDevice {
    let words = state.pages().div_ceil(64) as usize;
    let device = SimDevice::over(state.clone());
    let notes = Notes {
        known: vec![0; words],
        reads: Vec::with_capacity(64),
    };
    let trace = Trace {
        state,
        notes: Mutex::new(notes),
    };
    Hooked::new(device, trace)
}

impl Trace {
    /// Every first read of a page of the state so far, in order.
    pub fn reads(&self) -> Vec<Read> {
        self.notes.lock().reads.clone()
    }

    fn note_write(&self, pages: Range<u64>) {
        let mut notes = self.notes.lock();
        for page in pages.start..pages.end.min(self.state.pages()) {
            notes.first(page);
        }
    }
}

impl Hooks for Trace {
    fn before_read(&self, at: PageNo, bytes: usize) -> Result<(), DeviceError> {
        let mut notes = self.notes.lock();
        for page in pages_of(at, bytes) {
            if notes.first(page) {
                let digest = digest_at(&self.state, page);
                notes.reads.push(Read { page, digest });
            }
        }
        Ok(())
    }
    fn before_write(&self, at: PageNo, bytes: usize, _: Class) -> Result<(), DeviceError> {
        self.note_write(pages_of(at, bytes));
        Ok(())
    }
    fn before_discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.note_write(at.0..at.0.saturating_add(pages));
        Ok(())
    }
}

/// The device as `audit` looks at it: what stands there now; that counts as reading the state, too.
pub struct Looked<'a>(pub &'a TraceDevice);

impl keepfs_check::Image for Looked<'_> {
    fn pages(&self) -> u64 {
        self.0.hooks.state.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}
