//! The control words of a frame (S-13.1): word {version:48, gate:1, latch:1, writers:14}, sum, binding, lines written,
//! keyed sum.
//!
//! Invariants:
//! C-1 The gate has one holder at a time; only that one clears it.
//! C-2 A line that was written since the frame was last verified has its bit in the lines written. A writer sets it
//!     while it counts as one; a verifier clears it only while it holds the gate over a frame that has not changed since
//!     the copy that verified.

use super::waiting::Waiting;
use super::{Arena, FrameNo};
use core::ops::Range;
use core::sync::atomic::Ordering;
use keepfs_codes::identity::{Binding, Group, Identity};
use keepfs_format::PAGE;

/// Bytes of a frame's control words: a cache line, so that two frames do not share one.
pub(super) const CONTROL: usize = 64;
const SUM: usize = 8;
const IDENTITY: usize = 16;
const GROUP: usize = 24;
const WRITTEN: usize = 32;
pub(super) const KEYED: usize = 40;

/// Word: one writer.
pub(super) const WRITER: u64 = 1;
/// Word: mask of the writers.
pub(super) const WRITERS: u64 = 0x3fff;
/// Word: somebody is changing a counter of the frame (S-13.4).
const LATCH: u64 = 0x4000;
/// Word: a verifier asks writers to wait.
pub(super) const GATE: u64 = 0x8000;
/// Word: one version.
pub(super) const VERSION: u64 = 0x1_0000;

/// Bytes that share a bit of the lines written.
const LINE: usize = PAGE / 64;

/// The binding of a frame that belongs to no metablock.
pub(crate) const UNBOUND: Binding = Binding {
    identity: Identity::from_word(0),
    group: Group::Bitmap,
};

/// Lines of 64 bytes of a frame, one bit each (S-15.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lines(pub u64);

impl Lines {
    /// Those that have a byte of `range`, which is within a frame.
    #[inline]
    pub fn of(range: Range<usize>) -> Lines {
        if range.is_empty() {
            return Lines(0);
        }
        let (first, last) = (range.start / LINE, (range.end - 1) / LINE);
        Lines((u64::MAX >> (63 - (last - first))) << first)
    }

    /// Whether they have a line in common.
    pub fn meet(self, other: Lines) -> bool {
        self.0 & other.0 != 0
    }
}

impl Arena {
    pub(super) fn at(frame: FrameNo, word: usize) -> usize {
        frame as usize * CONTROL + word
    }

    pub(super) fn word(&self, frame: FrameNo) -> u64 {
        self.control.load_u64(Self::at(frame, 0), Ordering::Acquire)
    }

    /// The rolling sum as it is kept: bound to the metablock, turned by the group.
    pub(super) fn rolling(&self, frame: FrameNo) -> u64 {
        self.control.load_u64(Self::at(frame, SUM), Ordering::Acquire)
    }

    /// Whose frame it is; a damaged group is one that nothing verifies with.
    pub(crate) fn binding(&self, frame: FrameNo) -> Binding {
        let identity = self.control.load_u64(Self::at(frame, IDENTITY), Ordering::Acquire);
        let group = self.control.load_u64(Self::at(frame, GROUP), Ordering::Acquire);
        Binding {
            identity: Identity::from_word(identity),
            group: Group::of(group).unwrap_or(Group::Log),
        }
    }

    pub(super) fn bind(&self, frame: FrameNo, binding: Binding) {
        let (identity, group) = (binding.identity.word(), binding.group.number());
        self.control
            .store_u64(Self::at(frame, IDENTITY), identity, Ordering::Release);
        self.control.store_u64(Self::at(frame, GROUP), group, Ordering::Release);
    }

    /// The CRC-64 that the rolling sum stands for.
    pub fn sum(&self, frame: FrameNo) -> u64 {
        self.binding(frame).crc(self.rolling(frame))
    }

    /// Stores the sum of bytes with this CRC-64, absolutely.
    pub(super) fn set_sum(&self, frame: FrameNo, crc: u64) {
        let rolling = self.binding(frame).rolling(crc);
        self.control.store_u64(Self::at(frame, SUM), rolling, Ordering::Release);
    }

    /// The rolling sum absorbs what a caller of some group folded, one atomic XOR.
    #[inline]
    pub(super) fn xor_sum(&self, frame: FrameNo, folded: u64) {
        self.control.xor_u64(Self::at(frame, SUM), folded);
    }

    /// Version of a frame, if nobody is writing.
    #[inline]
    pub fn quiet_version(&self, frame: FrameNo) -> Option<u64> {
        let word = self.word(frame);
        (word & WRITERS == 0).then_some(word >> 16)
    }

    /// Door, step 2: one more writer. Spins while a verifier holds the gate (bounded by one copy of a frame, or one
    /// repair).
    #[inline]
    pub(crate) fn enter(&self, frame: FrameNo) {
        let mut waiting = Waiting::on(frame);
        loop {
            let word = self.control.add_u64(Self::at(frame, 0), WRITER);
            if word & GATE == 0 {
                // Whoever sees a byte stored after this sees the writer, too: an atomic addition alone does not order
                // later stores (found by the model of the frame word).
                core::sync::atomic::fence(Ordering::Release);
                return;
            }
            self.control.add_u64(Self::at(frame, 0), WRITER.wrapping_neg());
            waiting.pause();
        }
    }

    /// One more writer, whatever the gate says: for who holds it.
    pub(super) fn enter_held(&self, frame: FrameNo) {
        self.control.add_u64(Self::at(frame, 0), WRITER);
        core::sync::atomic::fence(Ordering::Release);
    }

    /// Door, step 7: version + 1, one writer less.
    #[inline]
    pub(crate) fn leave(&self, frame: FrameNo) {
        self.control.add_u64(Self::at(frame, 0), VERSION.wrapping_sub(WRITER));
    }

    /// Door, before a counter is read: no other counter of the frame changes until [`Arena::unlatch`] (S-13.4).
    /// The caller is a writer; spins for as long as another one takes for a handful of stores.
    #[inline]
    pub(crate) fn latch(&self, frame: FrameNo) {
        let (mut tries, mut waiting) = (0u32, Waiting::on(frame));
        while self.control.or_u64(Self::at(frame, 0), LATCH) & LATCH != 0 {
            tries += 1;
            if tries.is_multiple_of(64) {
                waiting.pause();
            } else {
                core::hint::spin_loop();
            }
        }
    }

    /// Door, after a counter was changed.
    #[inline]
    pub(crate) fn unlatch(&self, frame: FrameNo) {
        self.control.and_u64(Self::at(frame, 0), !LATCH);
    }

    /// Waits for the gate and takes it (C-1): no writer begins until [`Arena::open_gate`].
    pub(super) fn shut_gate(&self, frame: FrameNo) {
        let mut waiting = Waiting::on(frame);
        while self.control.or_u64(Self::at(frame, 0), GATE) & GATE != 0 {
            waiting.pause();
        }
    }

    pub(super) fn open_gate(&self, frame: FrameNo) {
        self.control.and_u64(Self::at(frame, 0), !GATE);
    }

    /// Lines written since the frame was last verified.
    #[inline]
    pub(crate) fn written(&self, frame: FrameNo) -> Lines {
        Lines(self.control.load_u64(Self::at(frame, WRITTEN), Ordering::Acquire))
    }

    /// Door, with step 3: these bytes are written now. The caller is a writer (C-2).
    #[inline]
    pub(super) fn mark_written(&self, frame: FrameNo, range: Range<usize>) {
        let lines = Lines::of(range).0;
        if self.written(frame).0 & lines != lines {
            self.control.or_u64(Self::at(frame, WRITTEN), lines);
        }
    }

    /// Nothing is written since the frame was verified: for who may say so (C-2).
    pub(super) fn clear_written(&self, frame: FrameNo) {
        self.control.store_u64(Self::at(frame, WRITTEN), 0, Ordering::Release);
    }

    /// A copy verified while the word was `seen`: the lines written are forgotten, if nobody wrote since (C-2).
    #[inline]
    pub(super) fn verified_at(&self, frame: FrameNo, seen: u64) {
        if self.written(frame).0 == 0 || seen & GATE != 0 {
            return;
        }
        if self.control.replace_u64(Self::at(frame, 0), seen, seen | GATE) {
            self.clear_written(frame);
            self.open_gate(frame);
        }
    }

    /// Restart: nobody writes, holds the latch or verifies any more.
    pub(crate) fn restore_word(&self, frame: FrameNo) {
        let word = self.word(frame);
        if word & (WRITERS | LATCH | GATE) != 0 {
            self.set_word(frame, (word & !(WRITERS | LATCH | GATE)).wrapping_add(VERSION));
        }
    }

    /// Restart: the word, absolutely.
    pub(super) fn set_word(&self, frame: FrameNo, word: u64) {
        self.control.store_u64(Self::at(frame, 0), word, Ordering::Release);
    }

    /// A stray write into the sum.
    #[cfg(test)]
    pub(crate) fn damage_sum(&self, frame: FrameNo, xor: u64) {
        self.xor_sum(frame, xor);
    }

    /// A stray write into the control words' identity.
    #[cfg(test)]
    pub(crate) fn damage_binding(&self, frame: FrameNo) {
        self.control.xor_u64(Self::at(frame, IDENTITY), 1 << 33);
    }

    /// A stray write into a word of the parity.
    #[cfg(test)]
    pub(crate) fn damage_parity(&self, frame: FrameNo, word: usize, xor: u64) {
        use keepfs_codes::Code;
        let base = frame as usize * self.code.parity_len();
        self.parity.xor_u64(base + 8 * word, xor);
    }
}
