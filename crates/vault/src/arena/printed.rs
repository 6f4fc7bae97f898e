//! The write of Greenan & Miller (2006), figure 3, as printed: guard `mprotect` with `evenodd64` or `evenodd256`, for
//! comparison (decision 0421).
//!
//! Invariants:
//! F-1 Nobody else writes frames or parity from the copy into scratch until the block is checked: both regions' locks are
//!     held, frames first. So every change of a frame's bytes takes this way under this guard and code, bits too.
//! F-2 Only the parity is encoded anew. The sum follows each change as everywhere, so a stray write that figure 3 encodes
//!     with the rest of its block is still told when the frame is verified.

use super::{Arena, FrameNo};
use core::ops::Range;
use keepfs_codes::evenodd::block;
use keepfs_codes::{Code, Protection};
use keepfs_format::PAGE;
use keepfs_memory::Guard;

impl Arena {
    /// Whether frames are written as figure 3 has it.
    #[inline]
    pub(crate) fn is_printed(&self) -> bool {
        self.frames.guard() == Guard::Mprotect && self.blocks().is_some()
    }

    /// Bytes of a block of the code that the paper uses.
    #[inline]
    fn blocks(&self) -> Option<usize> {
        match self.code {
            Protection::Evenodd64 => Some(64),
            Protection::Evenodd256 => Some(256),
            _ => None,
        }
    }

    /// Figure 3 for the bytes of `range`, which `change` alters in scratch: it gets their place in the range. `false`: a block
    /// did not check afterwards (lines 11 and 12).
    #[inline(never)]
    pub(super) fn write_printed(
        &self,
        frame: FrameNo,
        range: Range<usize>,
        change: &mut dyn FnMut(usize, &mut [u8]),
    ) -> bool {
        assert!(range.end <= PAGE, "write beyond the frame");
        self.each_block(frame, range, true, change)
    }

    /// The same; without `check` only encoding is done (the third configuration of the paper's figure 8).
    pub(crate) fn write_blocks(&self, frame: FrameNo, offset: usize, bytes: &[u8], check: bool) -> bool {
        let range = offset..offset + bytes.len();
        self.each_block(frame, range, check, &mut |at, scratch| {
            scratch.copy_from_slice(&bytes[at..at + scratch.len()]);
        })
    }

    fn each_block(
        &self,
        frame: FrameNo,
        range: Range<usize>,
        check: bool,
        change: &mut dyn FnMut(usize, &mut [u8]),
    ) -> bool {
        let Some(size) = self.blocks() else { return false };
        let first = range.start - range.start % size;
        let mut good = true;
        for start in (first..range.end).step_by(size) {
            let part = range.start.max(start)..range.end.min(start + size);
            let altered = |scratch: &mut [u8]| {
                change(
                    part.start - range.start,
                    &mut scratch[part.start - start..part.end - start],
                );
            };
            let mut scratch = [0; 256];
            good &= self.write_block(frame, start, &mut scratch[..size], check, altered);
        }
        good
    }

    /// Lines 4 to 13 for the block at `start`.
    fn write_block(
        &self,
        frame: FrameNo,
        start: usize,
        scratch: &mut [u8],
        check: bool,
        change: impl FnOnce(&mut [u8]),
    ) -> bool {
        let home = frame as usize * PAGE + start;
        let parity_home = frame as usize * self.code.parity_len() + start / scratch.len() * block::PARITY;
        let _alone = (self.frames.alone(), self.parity.alone());
        self.frames.load(home, scratch);
        change(scratch);
        let mut parity = block::encode(scratch);
        {
            let _open = (
                self.frames.opened(home, scratch.len()),
                self.parity.opened(parity_home, parity.len()),
            );
            self.frames.store_opened(home, scratch);
            self.parity.store_opened(parity_home, &parity);
        }
        if !check {
            return true;
        }
        self.frames.load(home, scratch);
        self.parity.load(parity_home, &mut parity);
        block::check(scratch, &parity)
    }
}

#[cfg(test)]
mod tests;
