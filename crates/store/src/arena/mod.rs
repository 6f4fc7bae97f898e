//! The arena: 4 KiB frames under guard, each with a rolling checksum and a word {version:48, gate:1, latch:1,
//! writers:14} (S-13.1).
//!
//! Invariants:
//! A-1 A frame's bytes change only by [`Arena::fill`] (whole frame, nobody else may see it) and by the door.
//! A-2 Between [`Arena::enter`] and [`Arena::leave`] of the last writer the sum equals the CRC-64 of the bytes only
//!     when nobody scribbled; outside it always does.
//! A-3 What is verified is a private copy, and what goes to the device is that copy (PROTOCOLS section 3).

mod fault;
mod reuse;
pub mod sys;

pub use reuse::Reuse;
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
const WRITERS: u64 = 0x3fff;
/// Word: somebody is changing a counter of the frame (S-13.4).
const LATCH: u64 = 0x4000;
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
                // Whoever sees a byte stored after this sees the writer, too: an atomic addition alone does not order
                // later stores (found by the model of the frame word).
                core::sync::atomic::fence(Ordering::Release);
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

    /// Door, before a counter is read: no other counter of the frame changes until [`Arena::unlatch`] (S-13.4).
    /// The caller is a writer; spins for as long as another one takes for a handful of stores.
    #[inline]
    pub(crate) fn latch(&self, frame: FrameNo) {
        let mut tries = 0u32;
        while self.control.or_u64(Self::word_at(frame), LATCH) & LATCH != 0 {
            tries += 1;
            if tries.is_multiple_of(64) {
                std::thread::yield_now();
            } else {
                core::hint::spin_loop();
            }
        }
    }

    /// Door, after a counter was changed.
    #[inline]
    pub(crate) fn unlatch(&self, frame: FrameNo) {
        self.control.and_u64(Self::word_at(frame), !LATCH);
    }

    /// Door, step 6 for counters of 8 bytes, under the latch.
    #[inline]
    pub(crate) fn set_u64(&self, frame: FrameNo, offset: usize, value: u64) {
        assert!(offset + 8 <= PAGE, "write beyond the frame");
        self.frames
            .store_u64(frame as usize * PAGE + offset, value, Ordering::Release);
    }

    /// Door, step 6 for counters of 2 bytes, under the latch.
    #[inline]
    pub(crate) fn set_u16(&self, frame: FrameNo, offset: usize, value: u16) {
        assert!(offset + 2 <= PAGE, "write beyond the frame");
        self.frames
            .store_u16(frame as usize * PAGE + offset, value, Ordering::Release);
    }

    /// Restart: the bytes of a frame as they were before the open transactions, while nobody else is there.
    pub(crate) fn restore(&self, frame: FrameNo, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= PAGE, "write beyond the frame");
        self.frames.store(frame as usize * PAGE + offset, bytes);
    }

    /// Restart: the sum of restored bytes, absolutely (S-13.6).
    pub(crate) fn restore_sum(&self, frame: FrameNo, sum: u64) {
        self.control.store_u64(Self::sum_at(frame), sum, Ordering::Release);
    }

    /// Restart: nobody writes, holds the latch or verifies any more.
    pub(crate) fn restore_word(&self, frame: FrameNo) {
        let at = Self::word_at(frame);
        let word = self.control.load_u64(at, Ordering::Acquire);
        if word & (WRITERS | LATCH | GATE) != 0 {
            let quiet = (word & !(WRITERS | LATCH | GATE)).wrapping_add(VERSION);
            self.control.store_u64(at, quiet, Ordering::Release);
        }
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
