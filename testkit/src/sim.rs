//! The simulated device: records everything that is written, and fails as planned.
//!
//! # The fault model
//! What a device of this kind may do, and so what a pool must survive:
//!
//! 1. **Power cut at any moment.** Durable is every write that returned before the last flush that
//!    returned Ok began. Every later write is *in flight*: at a cut it is kept or lost, each 4096-byte
//!    page of it on its own, in any combination and in any order ([`crate::crash`]).
//! 2. **Torn pages.** Of a page in flight any 512-byte sectors may be new and the others old. A sector is
//!    never torn.
//! 3. **Discards** are in flight like writes; a discarded page reads as zeros once the discard is kept,
//!    as before while it is lost.
//! 4. **Errors.** A read, write, flush or discard may fail with EIO, once or for ever, by count, by page
//!    or by class of write; a page may be unreadable until it is written.
//!    A failed write has changed nothing, or (a *short write*) only its first sectors. After a failed
//!    flush nothing became durable; what was in flight stays in flight and still reads as written.
//! 5. **Lying flush.** It returns Ok, and nothing became durable.
//! 6. **Newest first.** What is in flight may reach the medium in the reverse order of its writing.
//! 7. **Gone.** After some operation every one fails, for ever.
//!
//! Not in this model: a sector that was flushed and changes later by itself (damage at rest) is planted by
//! [`Image::change`]; reads that return other bytes than the medium holds; bytes that were never written
//! by anyone in a torn sector.

mod faults;
mod latency;
mod log;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::PAGE_BYTES;
use crate::image::{Image, Page};
use keepfs_media::{Access, Class, Counters, Device, DeviceError, Meter, PAGE, PageNo, check_range, check_span};

pub use faults::{Faults, Operation, PersistOrder, When};
pub use latency::Latency;
pub use log::{Entry, Event, Recording};

use faults::Verdict;

/// Bytes of a sector, the unit that is never torn.
pub const SECTOR: usize = 512;

/// A recording device in memory with planned faults.
pub struct SimDevice {
    pages: u64,
    state: Mutex<State>,
    tag: AtomicU64,
    meter: Meter,
    latency: Latency,
    elapsed_ns: AtomicU64,
}

struct State {
    base: Image,
    now: Image,
    log: Vec<Entry>,
    faults: Faults,
}

impl SimDevice {
    /// A device of `pages` zero pages.
    pub fn new(pages: u64) -> Self {
        Self::over(Image::new(pages))
    }

    /// A device whose content is `image`, all of it durable, with an empty log.
    pub fn over(image: Image) -> Self {
        Self {
            pages: image.pages(),
            state: Mutex::new(State {
                base: image.clone(),
                now: image,
                log: Vec::new(),
                faults: Faults::none(),
            }),
            tag: AtomicU64::new(0),
            meter: Meter::default(),
            latency: Latency::none(),
            elapsed_ns: AtomicU64::new(0),
        }
    }

    /// Another device in the same state, log and tag included, that has no planned faults: what the one goes on to do, the
    /// other does not see.
    pub fn fork(&self) -> Self {
        let state = self.state.lock();
        let tag = self.tag.load(Ordering::SeqCst);
        Self {
            pages: self.pages,
            state: Mutex::new(State {
                base: state.base.clone(),
                now: state.now.clone(),
                log: state.log.clone(),
                faults: Faults::none(),
            }),
            tag: AtomicU64::new(tag),
            meter: Meter::default(),
            latency: Latency::none(),
            elapsed_ns: AtomicU64::new(0),
        }
    }

    /// The tag that the next log entries carry.
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::SeqCst)
    }

    /// The same device with simulated latency.
    #[must_use]
    pub fn with_latency(mut self, latency: Latency) -> Self {
        self.latency = latency;
        self
    }

    /// Replaces the planned faults; their counts start now.
    pub fn set_faults(&self, faults: Faults) {
        self.state.lock().faults = faults;
    }

    /// The tag that later log entries carry: the number of the system call or transaction that causes
    /// them.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::SeqCst);
    }

    /// Entries of the log.
    pub fn log_len(&self) -> usize {
        self.state.lock().log.len()
    }

    /// The content before the log and the log, copied (pages are shared).
    pub fn recording(&self) -> Recording {
        let state = self.state.lock();
        Recording {
            base: state.base.clone(),
            log: state.log.clone(),
        }
    }

    /// Takes the log away; the present content becomes the base of the next one, as if durable.
    pub fn take_log(&self) -> Recording {
        let mut state = self.state.lock();
        let now = state.now.clone();
        Recording {
            base: std::mem::replace(&mut state.base, now),
            log: std::mem::take(&mut state.log),
        }
    }

    /// The content as read now.
    pub fn image(&self) -> Image {
        self.state.lock().now.clone()
    }

    /// What a power cut now leaves if the first `kept` page writes in flight, in the planned order
    /// (oldest first, or newest first), have reached the medium.
    pub fn power_cut(&self, kept: usize) -> Image {
        let order = self.state.lock().faults.order();
        self.recording().power_cut(order, kept)
    }

    /// The simulated time spent.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns.load(Ordering::Relaxed))
    }

    fn spend(&self, operation: Operation, bytes: usize) {
        let spent = self.latency.spend(operation, bytes);
        if !spent.is_zero() {
            let nanoseconds = spent.as_nanos() as u64;
            self.elapsed_ns.fetch_add(nanoseconds, Ordering::Relaxed);
        }
    }

    fn record(&self, state: &mut State, event: Event) {
        let tag = self.tag.load(Ordering::SeqCst);
        event.apply(&mut state.now);
        state.log.push(Entry { tag, event });
    }

    fn fails(&self, what: Access, page: PageNo) -> DeviceError {
        DeviceError::Io {
            what,
            page,
            device: self.describe(),
            source: std::io::Error::from_raw_os_error(libc::EIO),
        }
    }

    fn gone(&self) -> DeviceError {
        DeviceError::Removed {
            device: self.describe(),
        }
    }

    /// Records the first `sectors` sectors of a write of `data` at `at`.
    fn write_short(&self, state: &mut State, at: PageNo, data: &[u8], class: Class, sectors: usize) {
        let changed = data.len().min(sectors * SECTOR);
        let whole = changed.next_multiple_of(PAGE);
        let mut torn = data[..whole].to_vec();
        if changed < whole {
            let last = at.plus((whole / PAGE - 1) as u64);
            torn[changed..].copy_from_slice(&state.now.bytes(last)[PAGE - (whole - changed)..]);
        }
        if !torn.is_empty() {
            self.record(state, Event::write(at, &torn, class));
        }
    }
}

impl Device for SimDevice {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_span(self.pages, at, buf.len())?;
        let count = (buf.len() / PAGE) as u64;
        {
            let mut state = self.state.lock();
            match state.faults.judge(Operation::Read, None, at, count) {
                Verdict::Gone => return Err(self.gone()),
                Verdict::Good | Verdict::Lie => {}
                Verdict::Error | Verdict::Short(_) => return Err(self.fails(Access::Read, at)),
            }
            for (page, into) in (at.0..).zip(buf.as_chunks_mut().0) {
                *into = *state.now.bytes(PageNo(page));
            }
        }
        self.meter.read(buf.len());
        self.spend(Operation::Read, buf.len());
        Ok(())
    }

    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        check_span(self.pages, at, data.len())?;
        let event = Event::write(at, data, class);
        {
            let mut state = self.state.lock();
            let count = (data.len() / PAGE) as u64;
            match state.faults.judge(Operation::Write, Some(class), at, count) {
                Verdict::Gone => return Err(self.gone()),
                Verdict::Error => return Err(self.fails(Access::Write, at)),
                Verdict::Short(sectors) => {
                    self.write_short(&mut state, at, data, class, sectors);
                    return Err(self.fails(Access::Write, at));
                }
                Verdict::Good | Verdict::Lie => self.record(&mut state, event),
            }
        }
        self.meter.write(class, data.len());
        self.spend(Operation::Write, data.len());
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        {
            let mut state = self.state.lock();
            match state.faults.judge(Operation::Flush, None, PageNo(0), 0) {
                Verdict::Gone => return Err(self.gone()),
                Verdict::Error | Verdict::Short(_) => {
                    return Err(DeviceError::Flush {
                        device: self.describe(),
                        source: std::io::Error::from_raw_os_error(libc::EIO),
                    });
                }
                Verdict::Lie => {}
                Verdict::Good => self.record(&mut state, Event::Flush),
            }
        }
        self.meter.flush();
        self.spend(Operation::Flush, 0);
        Ok(())
    }

    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        check_range(self.pages, at, pages)?;
        {
            let mut state = self.state.lock();
            match state.faults.judge(Operation::Discard, None, at, pages) {
                Verdict::Gone => return Err(self.gone()),
                Verdict::Error | Verdict::Short(_) => return Err(self.fails(Access::Discard, at)),
                Verdict::Good | Verdict::Lie => {
                    self.record(&mut state, Event::Discard { at, pages });
                }
            }
        }
        self.meter.discard(pages * PAGE_BYTES);
        Ok(())
    }

    fn counters(&self) -> Counters {
        self.meter.snapshot()
    }

    fn describe(&self) -> String {
        format!("simulated device of {} pages", self.pages)
    }

    fn read_only(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
