//! Guarded shared memory.
//!
//! A [`Region`] is a memfd mapped twice: once read-only, where everybody reads, and once writable at a secret
//! random address, through which only its owner writes (guard level `alias`; ). The
//! other levels ([`window`]) have the same first mapping and another way to write.
//!
//! Invariants:
//! R-2 Every offset is checked against the length of the region before a pointer is made.
//! R-4 A region is unmapped only when its `Region` is dropped, and nothing derived from its pointers outlives it.

mod reuse;
mod shown;
mod sparse;
mod window;

pub use reuse::Reuse;

use crate::guard::Guard;
use crate::hidden::{self, Hidden};
use crate::sys::{self, LARGE};
use crate::{fault, numbers};
use core::sync::atomic::{AtomicUsize, Ordering};
use keepfs_format::PAGE;
use parking_lot::RwLock;
use reuse::Written;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Guarded shared memory of a fixed length.
pub struct Region {
    pub(crate) shown: usize,
    pub(crate) len: usize,
    pub(crate) number: usize,
    pub(crate) guard: Guard,
    /// Held by who writes where writing takes more than a store ([`Guard::Sealed`], [`Guard::Mprotect`]).
    pub(crate) writing: RwLock<()>,
    /// What a sealed region is written through.
    pub(crate) sealed: Option<OwnedFd>,
    /// Where it was written, if it is kept for another life ([`reuse`]).
    pub(crate) written: Option<Written>,
    /// Below it, large pages were asked for.
    pub(crate) asked: AtomicUsize,
    /// Kept only if somebody shall be able to adopt the memory.
    pub(crate) memory: Option<OwnedFd>,
}

impl Region {
    /// Makes a region of `len` bytes (rounded up to pages), zeroed, from a memfd called `name`.
    ///
    /// With `seal`, the mappings cannot be changed until the process ends (mseal), for servers; a sealed region's
    /// addresses are never given back.
    pub fn new(name: &str, len: usize, guard: Guard, seal: bool) -> io::Result<Region> {
        let len = len.next_multiple_of(4096).max(4096);
        let kept = !seal && reuse::is_on() && matches!(guard, Guard::Alias | Guard::Off);
        if let Some(region) = kept.then(|| reuse::take(name, len, guard)).flatten() {
            return Ok(region);
        }
        let writable = sys::memfd(name, len)?;
        let mut region = Region::mapped(&writable, len, guard, seal, sys::alignment(name, len))?;
        region.written = kept.then(|| Written::new(name, len));
        Ok(region)
    }

    /// The same, and its descriptor is kept, so that who holds it too can adopt the memory after this process (S-14.8).
    pub fn lasting(name: &str, len: usize, guard: Guard, seal: bool) -> io::Result<Region> {
        let len = len.next_multiple_of(4096).max(4096);
        let memory = sys::memfd(name, len)?;
        let mut region = Region::mapped(&memory, len, guard, seal, sys::alignment(name, len))?;
        region.memory = Some(sys::out_of_the_way(memory));
        Ok(region)
    }

    /// Maps memory that an earlier life of the server made. Errors: its size can still be changed, or is none of a region.
    pub fn adopt(memory: OwnedFd, guard: Guard, seal: bool) -> io::Result<Region> {
        let file = std::fs::File::from(memory);
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let memory = OwnedFd::from(file);
        if !sys::is_fixed(&memory) || len == 0 || !len.is_multiple_of(4096) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory is none that a server left",
            ));
        }
        let mut region = Region::mapped(&memory, len, guard, seal, PAGE)?;
        region.memory = Some(sys::out_of_the_way(memory));
        Ok(region)
    }

    /// The descriptor of memory that lasts.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }

    fn mapped(writable: &OwnedFd, len: usize, guard: Guard, seal: bool, align: usize) -> io::Result<Region> {
        fault::install();
        let number = numbers::take()?;
        let mapped = sys::map_both(writable, len, guard, align);
        let (shown, window) = mapped.inspect_err(|_| numbers::give_back(number))?;
        numbers::show(number, if guard == Guard::Off { 0 } else { shown }, len);
        hidden::keep(number, window);
        if seal && !matches!(guard, Guard::Off | Guard::Mprotect) {
            seal_both(shown, window, len);
        }
        hidden::overwrite_stack();
        let sealed = (guard == Guard::Sealed).then(|| writable.try_clone().map(sys::out_of_the_way));
        Ok(Region {
            shown,
            len,
            number,
            guard,
            writing: RwLock::new(()),
            sealed: sealed.transpose()?,
            written: None,
            asked: AtomicUsize::new(0),
            memory: None,
        })
    }

    /// Bytes of the region; never 0.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Where everybody reads. For tests and fault injection: a write there must fault.
    pub fn shown_address(&self) -> usize {
        self.shown
    }

    #[inline]
    pub(crate) fn check(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access beyond the region"
        );
    }

    /// The address in the window through which `len` bytes at `offset` are going to be written.
    #[inline]
    pub(crate) fn window(&self, offset: usize, len: usize) -> usize {
        if let Some(written) = &self.written {
            written.mark(offset, len);
        }
        hidden::window(self.number) + offset
    }

    /// Bytes at `offset` are going to be used that may never have been: where the region grows into another large page of the
    /// processor, that is asked for at once (decision 0673). Where it cannot be had, nothing happens.
    #[inline]
    pub fn about_to_use(&self, offset: usize) {
        if offset >= self.asked.load(Ordering::Relaxed) {
            self.ask_for_large(offset / LARGE * LARGE);
        }
    }

    #[cold]
    fn ask_for_large(&self, start: usize) {
        let before = self.asked.fetch_max(start + LARGE, Ordering::Relaxed);
        // Pages whose protection changes one by one would be taken apart again.
        if before > start || start + LARGE > self.len || self.guard == Guard::Mprotect {
            return;
        }
        let at = self.shown + start;
        // The kernel makes nothing of a range that has no page yet.
        core::hint::black_box(sys::byte(at).load(Ordering::Relaxed));
        sys::advise(at, LARGE, libc::MADV_COLLAPSE);
    }
}

/// A call of its own, so that its caller never has the address (H-2).
#[inline(never)]
fn seal_both(shown: usize, window: Hidden, len: usize) {
    sys::mseal(shown, len);
    if window != Hidden::NONE {
        sys::mseal(window.address(), len);
    }
    sys::clear_registers();
}

impl Drop for Region {
    fn drop(&mut self) {
        if reuse::is_on()
            && let Some(written) = self.written.take()
        {
            return self.keep(written);
        }
        numbers::hide(self.number);
        let window = hidden::take(self.number);
        sys::unmap_shown(self.shown, self.len);
        if matches!(self.guard, Guard::Alias | Guard::Pkey) {
            sys::unmap_window(window, self.len);
        }
        numbers::give_back(self.number);
    }
}

#[cfg(test)]
mod tests;
