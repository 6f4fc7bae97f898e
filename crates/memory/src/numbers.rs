//! The regions of this process, by number: what the fault handler looks an address up in.

use crate::hidden::REGIONS;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;

/// Read-only addresses and lengths; an address of 0 is no region, or one without a guard.
static SHOWN: [(AtomicUsize, AtomicUsize); REGIONS] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; REGIONS];
/// Which numbers are taken.
static TAKEN: [AtomicBool; REGIONS] = [const { AtomicBool::new(false) }; REGIONS];
/// Greatest number ever used + 1.
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// A number that no region has, until [`give_back`]. Errors: there is none.
pub(crate) fn take() -> io::Result<usize> {
    let free = TAKEN.iter().position(|t| !t.swap(true, Ordering::AcqRel));
    let number = free.ok_or_else(|| io::Error::other("too many arenas in one process"))?;
    HIGH.fetch_max(number + 1, Ordering::AcqRel);
    Ok(number)
}

/// The number is free.
pub(crate) fn give_back(number: usize) {
    TAKEN[number].store(false, Ordering::Release);
}

/// Where everybody reads the region, and how long it is; an address of 0 is one that the fault handler does not know.
pub(crate) fn show(number: usize, at: usize, len: usize) {
    SHOWN[number].1.store(len, Ordering::Release);
    SHOWN[number].0.store(at, Ordering::Release);
}

/// The region no longer lies there.
pub(crate) fn hide(number: usize) {
    SHOWN[number].0.store(0, Ordering::Release);
}

/// All regions that ever had a number: address and length. Called by the fault handler: nothing is allocated, and nothing waits.
pub(crate) fn shown() -> impl Iterator<Item = (usize, usize)> {
    let regions = SHOWN.iter().take(HIGH.load(Ordering::Acquire));
    regions.map(|(at, len)| (at.load(Ordering::Acquire), len.load(Ordering::Acquire)))
}
