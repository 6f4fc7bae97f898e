//! How a region is read: through the mapping that everybody has, at every guard level.

use super::Region;
use crate::parts::{load_at, load_fours};
use crate::sys::{self, word16, word64};
use core::sync::atomic::Ordering;
use keepfs_format::PAGE;

impl Region {
    /// Copies bytes out of the region.
    #[inline]
    pub fn load(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset, buf.len());
        let at = self.shown + offset;
        // A single word is most often what the caller knows to ask for.
        match buf.len() {
            2 if at.is_multiple_of(2) => buf.copy_from_slice(&word16(at).load(Ordering::Relaxed).to_ne_bytes()),
            8 if at.is_multiple_of(8) => buf.copy_from_slice(&word64(at).load(Ordering::Relaxed).to_ne_bytes()),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            PAGE if std::arch::is_x86_feature_detected!("avx512f") => sys::load_wide(at, buf),
            _ => load_at(at, buf),
        }
    }

    /// Copies bytes out of the region as wide as the processor can, so that who sums the copy up does not wait for narrower stores.
    #[inline]
    pub fn load_line<const N: usize>(&self, offset: usize, line: &mut [u8; N]) {
        self.check(offset, N);
        assert!(offset.is_multiple_of(8), "a line is not aligned");
        let at = self.shown + offset;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if N.is_multiple_of(sys::WIDE) && std::arch::is_x86_feature_detected!("avx512f") {
            return sys::load_wide(at, line);
        }
        load_fours(at, line.as_chunks_mut().0);
    }

    /// Bytes from the beginning for which large pages were asked for.
    #[doc(hidden)]
    pub fn asked_for_large(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks the processor for `len` bytes from `offset` on, which are going to be read (decision 0673).
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        self.check(offset, len);
        (0..len)
            .step_by(64)
            .for_each(|line| sys::prefetch(self.shown + offset + line));
    }
}
