//! Regions kept for the next store that the same thread opens: simulations open thousands, and making and unmapping
//! guarded memory is half of what an opening costs (decision 0200).
//!
//! Invariants:
//! M-1 A kept region comes back as a new one is: all zero. It is zeroed where it was written, page by page, through
//!     its own window.
//! M-2 Only regions of equal name, length and guard stand for each other; sealed ones are never kept.

use super::Region;
use crate::guard::Guard;
use crate::hidden;
use crate::sys::word64;
use core::cell::RefCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use parking_lot::RwLock;

/// Bytes that are zeroed together.
const PIECE: usize = 4096;

thread_local! {
    /// What this thread keeps; `None` without a [`Reuse`].
    static SPARE: RefCell<Option<Vec<Region>>> = const { RefCell::new(None) };
}

/// While it lives, the regions that this thread drops are kept for those that it makes. Not nested.
pub struct Reuse(PhantomData<*const ()>);

impl Reuse {
    /// Begins to keep regions.
    pub fn begin() -> Reuse {
        SPARE.with(|spare| spare.replace(Some(Vec::new())));
        Reuse(PhantomData)
    }

    /// What `make` makes is not of regions that this thread keeps: somebody shall be able to adopt it.
    pub fn without<T>(make: impl FnOnce() -> T) -> T {
        let kept = SPARE.with(RefCell::take);
        let made = make();
        SPARE.with(|spare| spare.replace(kept));
        made
    }
}

impl Drop for Reuse {
    fn drop(&mut self) {
        // Taken out first: a region that is dropped now finds nobody to keep it and is unmapped.
        let kept = SPARE.with(RefCell::take);
        drop(kept);
    }
}

/// Whether regions are kept now.
pub(crate) fn is_on() -> bool {
    SPARE.try_with(|spare| spare.borrow().is_some()).unwrap_or(false)
}

/// A kept region like the one asked for.
pub(crate) fn take(name: &str, len: usize, guard: Guard) -> Option<Region> {
    SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        let kept = spare.as_mut()?;
        let at = kept.iter().position(|region| region.stands_for(name, len, guard))?;
        Some(kept.swap_remove(at))
    })
}

/// Keeps a zeroed region; called only where [`is_on`].
pub(crate) fn keep(region: Region) {
    SPARE.with(|spare| {
        if let Some(kept) = spare.borrow_mut().as_mut() {
            kept.push(region);
        }
    });
}

impl Region {
    /// Whether it is as good as the region asked for, once it is zeroed.
    pub(crate) fn stands_for(&self, name: &str, len: usize, guard: Guard) -> bool {
        let named = self.written.as_ref().is_some_and(|w| w.name == name);
        named && self.len == len && self.guard == guard
    }

    /// Zeroes what was written, and keeps the mappings for the next region like this one.
    pub(crate) fn keep(&mut self, written: Written) {
        for piece in written.take() {
            let start = hidden::window(self.number) + piece;
            (start..start + 4096)
                .step_by(8)
                .for_each(|at| word64(at).store(0, Ordering::Relaxed));
        }
        keep(Region {
            shown: self.shown,
            len: self.len,
            number: self.number,
            guard: self.guard,
            writing: RwLock::default(),
            sealed: None,
            written: Some(written),
            asked: AtomicUsize::new(*self.asked.get_mut()),
            memory: None,
        });
    }
}

/// Which pieces of a region were written.
pub(crate) struct Written {
    /// Of the region.
    pub name: String,
    bits: Box<[AtomicU64]>,
}

impl Written {
    /// Nothing of `len` bytes yet.
    pub fn new(name: &str, len: usize) -> Written {
        let words = len.div_ceil(PIECE).div_ceil(64);
        Written {
            name: name.to_owned(),
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Bytes from `offset` on are going to be written.
    #[inline]
    pub fn mark(&self, offset: usize, len: usize) {
        for piece in offset / PIECE..=(offset + len.max(1) - 1) / PIECE {
            let (word, bit) = (&self.bits[piece / 64], 1 << (piece % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Offsets of the pieces written since the last call.
    pub fn take(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().flat_map(|(at, word)| {
            let mut bits = match word.load(Ordering::Relaxed) {
                0 => 0,
                _ => word.swap(0, Ordering::Relaxed),
            };
            core::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some((at * 64 + bit) * PIECE)
            })
        })
    }
}

#[cfg(test)]
mod tests;
