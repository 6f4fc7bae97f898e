//! The arena: 4 KiB frames under guard, each with a rolling checksum and a word {version:48, gate:1, writers:15}.
//!
//! Invariants:
//! A-1 A frame's bytes change only by [`Arena::fill`] (whole frame, nobody else may see it) and by the door.
//! A-2 Between [`Arena::enter`] and [`Arena::leave`] of the last writer the sum equals the CRC-64 of the bytes only
//!     when nobody scribbled; outside it always does.
//! A-3 What is verified is a private copy, and what goes to the device is that copy (PROTOCOLS section 3).

pub mod sys;

pub use sys::{Guard, Region};

use crate::error::Error;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use std::sync::Arc;

/// Number of a frame.
pub type FrameNo = u32;
/// A private copy of a frame.
pub type Copy = Box<[u8; PAGE]>;

/// Bytes of a frame's control words: word, sum.
const CONTROL: usize = 16;
/// Word: one writer.
const WRITER: u64 = 1;
/// Word: mask of the writers.
const WRITERS: u64 = 0x7fff;
/// Word: a verifier asks writers to wait.
const GATE: u64 = 0x8000;
/// Word: one version.
const VERSION: u64 = 0x1_0000;
/// How often a verifier tries before it sets the gate (PROTOCOLS section 3).
const TRIES: u32 = 8;

/// Frames and their control words.
pub struct Arena {
    frames: Region,
    control: Region,
    count: u32,
}

/// A frame's bytes are not what its rolling checksum says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// CRC-64 of the bytes found.
    pub found: u64,
    /// The rolling checksum.
    pub expected: u64,
}

impl Arena {
    /// An arena of `count` frames, all zero, with the sums of zero frames.
    pub fn new(count: u32, guard: Guard, seal: bool) -> Result<Arena, Error> {
        let bytes = count as usize * PAGE;
        let memory = |source| Error::Memory {
            bytes,
            source: Arc::new(source),
        };
        let frames = Region::new("keepfs-arena", bytes, guard, seal).map_err(memory)?;
        let control = Region::new("keepfs-sums", count as usize * CONTROL, guard, seal).map_err(memory)?;
        Ok(Arena { frames, control, count })
    }

    /// Number of frames.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The frames' memory; fault injection and tests look for its address.
    pub fn frames(&self) -> &Region {
        &self.frames
    }

    fn word_at(frame: FrameNo) -> usize {
        frame as usize * CONTROL
    }

    fn sum_at(frame: FrameNo) -> usize {
        frame as usize * CONTROL + 8
    }

    /// Copies bytes out of a frame. The range is within the frame.
    #[inline]
    pub fn load(&self, frame: FrameNo, offset: usize, buf: &mut [u8]) {
        assert!(offset + buf.len() <= PAGE, "read beyond the frame");
        self.frames.load(frame as usize * PAGE + offset, buf);
    }

    /// The rolling checksum.
    pub fn sum(&self, frame: FrameNo) -> u64 {
        self.control.load_u64(Self::sum_at(frame), Ordering::Acquire)
    }

    /// Version of a frame, if nobody is writing.
    #[inline]
    pub fn quiet_version(&self, frame: FrameNo) -> Option<u64> {
        let word = self.control.load_u64(Self::word_at(frame), Ordering::Acquire);
        (word & WRITERS == 0).then_some(word >> 16)
    }

    /// Fills a frame that nobody else can see with `bytes`, whose CRC-64 is `sum` (fetch, birth).
    pub fn fill(&self, frame: FrameNo, bytes: &[u8; PAGE], sum: u64) {
        self.frames.store(frame as usize * PAGE, bytes);
        self.control.store_u64(Self::sum_at(frame), sum, Ordering::Release);
        self.control.add_u64(Self::word_at(frame), VERSION);
    }

    /// Replaces a frame's content by other verified bytes whose CRC-64 is `sum` (map pages, after a checkpoint).
    pub(crate) fn refill(&self, frame: FrameNo, bytes: &[u8; PAGE], sum: u64) {
        self.enter(frame);
        self.frames.store(frame as usize * PAGE, bytes);
        self.control.store_u64(Self::sum_at(frame), sum, Ordering::Release);
        self.leave(frame);
    }

    /// Door, step 2: one more writer. Spins while a verifier holds the gate (bounded by one copy of a frame).
    #[inline]
    pub(crate) fn enter(&self, frame: FrameNo) {
        loop {
            let word = self.control.add_u64(Self::word_at(frame), WRITER);
            if word & GATE == 0 {
                return;
            }
            self.control.add_u64(Self::word_at(frame), WRITER.wrapping_neg());
            std::thread::yield_now();
        }
    }

    /// Door, step 3: the rolling checksum absorbs a delta, one atomic XOR.
    #[inline]
    pub(crate) fn fold(&self, frame: FrameNo, delta: u64) {
        self.control.xor_u64(Self::sum_at(frame), delta);
    }

    /// Door, step 6: the bytes go through the window.
    #[inline]
    pub(crate) fn copy(&self, frame: FrameNo, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= PAGE, "write beyond the frame");
        self.frames.store(frame as usize * PAGE + offset, bytes);
    }

    /// Door, step 6 for bits: atomic XOR of one byte; returns the old byte.
    #[inline]
    pub(crate) fn flip(&self, frame: FrameNo, offset: usize, mask: u8) -> u8 {
        assert!(offset < PAGE, "write beyond the frame");
        self.frames.xor_u8(frame as usize * PAGE + offset, mask)
    }

    /// Door, step 6 for counters of 8 bytes: compare and exchange.
    #[inline]
    pub(crate) fn swap_u64(&self, frame: FrameNo, offset: usize, old: u64, new: u64) -> Result<u64, u64> {
        assert!(offset + 8 <= PAGE, "write beyond the frame");
        self.frames.swap_if_u64(frame as usize * PAGE + offset, old, new)
    }

    /// Door, step 6 for counters of 2 bytes: compare and exchange.
    #[inline]
    pub(crate) fn swap_u16(&self, frame: FrameNo, offset: usize, old: u16, new: u16) -> Result<u16, u16> {
        assert!(offset + 2 <= PAGE, "write beyond the frame");
        self.frames.swap_if_u16(frame as usize * PAGE + offset, old, new)
    }

    /// Door, step 7: version + 1, one writer less.
    #[inline]
    pub(crate) fn leave(&self, frame: FrameNo) {
        self.control.add_u64(Self::word_at(frame), VERSION.wrapping_sub(WRITER));
    }

    /// A private copy of the frame, verified against the rolling checksum while others may write (PROTOCOLS section 3).
    pub fn verified_copy(&self, frame: FrameNo, copy: &mut [u8; PAGE]) -> Result<u64, Mismatch> {
        for _ in 0..TRIES {
            if let Some(result) = self.try_copy(frame, copy, 0) {
                return result;
            }
            core::hint::spin_loop();
        }
        self.control.or_u64(Self::word_at(frame), GATE);
        let result = loop {
            if let Some(result) = self.try_copy(frame, copy, GATE) {
                break result;
            }
            std::thread::yield_now();
        };
        self.control.and_u64(Self::word_at(frame), !GATE);
        result
    }

    /// One attempt: `None` if somebody wrote meanwhile, else the version or the mismatch.
    fn try_copy(&self, frame: FrameNo, copy: &mut [u8; PAGE], gate: u64) -> Option<Result<u64, Mismatch>> {
        let before = self.control.load_u64(Self::word_at(frame), Ordering::Acquire);
        if before & WRITERS != 0 {
            return None;
        }
        self.load(frame, 0, copy);
        let expected = self.sum(frame);
        core::sync::atomic::fence(Ordering::Acquire);
        let after = self.control.load_u64(Self::word_at(frame), Ordering::Acquire);
        if (before | gate) != (after | gate) {
            return None;
        }
        let found = crc64::full(copy);
        Some(if found == expected {
            Ok(after >> 16)
        } else {
            Err(Mismatch { found, expected })
        })
    }
}

#[cfg(test)]
mod tests;
