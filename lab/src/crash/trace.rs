//! A device over a crash state that notes which pages of the state were read, in order: all that a recovery, the walk
//! of its tree and the walk of `audit` can depend on.

use keepfs_media::image::{Image, Page};
use keepfs_media::sim::SimDevice;
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
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
pub struct TraceDevice {
    state: Image,
    device: SimDevice,
    notes: Mutex<Notes>,
}

/// The digest of a page of an image.
pub fn digest_at(image: &Image, page: u64) -> u64 {
    image.get(PageNo(page)).map_or(0, Page::digest)
}

impl TraceDevice {
    /// A device that holds `state`.
    pub fn over(state: Image) -> TraceDevice {
        let words = state.pages().div_ceil(64) as usize;
        TraceDevice {
            device: SimDevice::over(state.clone()),
            state,
            notes: Mutex::new(Notes {
                known: vec![0; words],
                reads: Vec::with_capacity(64),
            }),
        }
    }

    /// The content now.
    pub fn image(&self) -> Image {
        self.device.image()
    }

    /// Every first read of a page of the state so far, in order.
    pub fn reads(&self) -> Vec<Read> {
        self.notes.lock().reads.clone()
    }

    fn note_read(&self, at: PageNo, bytes: usize) {
        let mut notes = self.notes.lock();
        for page in at.0..at.0.saturating_add((bytes / keepfs_media::PAGE) as u64) {
            if notes.first(page) {
                let digest = digest_at(&self.state, page);
                notes.reads.push(Read { page, digest });
            }
        }
    }

    fn note_write(&self, at: PageNo, pages: u64) {
        let mut notes = self.notes.lock();
        for page in at.0..at.0.saturating_add(pages).min(self.state.pages()) {
            notes.first(page);
        }
    }
}

impl Device for TraceDevice {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.note_read(at, buf.len());
        self.device.read(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.note_write(at, (data.len() / keepfs_media::PAGE) as u64);
        self.device.write(at, data, class)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.note_write(at, pages);
        self.device.discard(at, pages)
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
    fn read_only(&self) -> bool {
        false
    }
}

/// `audit` reads what stands on the device now; that counts as reading the state, too.
impl keepfs_audit::Image for TraceDevice {
    fn pages(&self) -> u64 {
        self.state.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        Device::read(self, PageNo(page), buf).map_err(|e| e.to_string())
    }
}
