//! The control words of a frame (S-13.1): word {version:48, gate:1, writers:15}, binding, keyed sum.
//!
//! Invariant:
//! C-1 The gate has one holder at a time; only that one clears it.

use super::waiting::Waiting;
use super::{Arena, FrameNo};
use crate::locks::held;
use core::sync::atomic::Ordering;
use keepfs_codes::identity::{Binding, Group, Identity};

/// Bytes of a frame's control words: a cache line, so that two frames do not share one.
pub(super) const CONTROL: usize = 64;
const IDENTITY: usize = 16;
const GROUP: usize = 24;
pub(super) const KEYED: usize = 40;

/// Word: one writer.
pub(super) const WRITER: u64 = 1;
/// Word: mask of the writers.
pub(super) const WRITERS: u64 = 0x7fff;
/// Word: a verifier asks writers to wait.
pub(super) const GATE: u64 = 0x8000;
/// Word: one version.
pub(super) const VERSION: u64 = 0x1_0000;

/// The binding of a frame that belongs to no metablock.
pub(crate) const UNBOUND: Binding = Binding {
    identity: Identity::from_word(0),
    group: Group::Bitmap,
};

impl Arena {
    #[inline]
    pub(super) fn at(frame: FrameNo, word: usize) -> usize {
        frame as usize * CONTROL + word
    }

    #[inline]
    pub(super) fn word(&self, frame: FrameNo) -> u64 {
        self.control.load_u64(Self::at(frame, 0), Ordering::Acquire)
    }

    /// Whose frame it is; a damaged group is one that nothing verifies with.
    #[inline]
    pub fn binding(&self, frame: FrameNo) -> Binding {
        let identity = self.control.load_u64(Self::at(frame, IDENTITY), Ordering::Acquire);
        let group = self.control.load_u64(Self::at(frame, GROUP), Ordering::Acquire);
        Binding {
            identity: Identity::from_word(identity),
            group: Group::of(group).unwrap_or(Group::Log),
        }
    }

    pub(super) fn bind(&self, frame: FrameNo, binding: Binding) {
        let (identity, group) = (binding.identity.word(), binding.group.number());
        self.control.store_u64(Self::at(frame, IDENTITY), identity);
        self.control.store_u64(Self::at(frame, GROUP), group);
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
        held::may_wait();
        let mut waiting = Waiting::on(frame);
        loop {
            let word = self.control.add_u64(Self::at(frame, 0), WRITER);
            if word & GATE == 0 {
                // Whoever sees a byte stored after this sees the writer, too: an atomic addition alone does not order
                // later stores (found by the model of the frame word).
                core::sync::atomic::fence(Ordering::Release);
                held::writes(true);
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

    /// Door, step 6: version + 1, one writer less.
    #[inline]
    pub(crate) fn leave(&self, frame: FrameNo) {
        self.control.add_u64(Self::at(frame, 0), VERSION.wrapping_sub(WRITER));
        held::writes(false);
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

    /// Restart: nobody writes or verifies any more.
    pub(crate) fn restore_word(&self, frame: FrameNo) {
        let word = self.word(frame);
        if word & (WRITERS | GATE) != 0 {
            self.set_word(frame, (word & !(WRITERS | GATE)).wrapping_add(VERSION));
        }
    }

    /// Restart: the word, absolutely.
    pub(super) fn set_word(&self, frame: FrameNo, word: u64) {
        self.control.store_u64(Self::at(frame, 0), word);
    }

    /// A stray write into the sum of a line.
    #[cfg(any(test, feature = "schedules"))]
    pub fn damage_sum(&self, frame: FrameNo, line: usize, xor: u64) {
        self.xor_sum(frame, line * keepfs_codes::line::LINE, xor);
    }

    /// A stray write into the control words' identity.
    #[cfg(any(test, feature = "schedules"))]
    pub fn damage_binding(&self, frame: FrameNo) {
        self.control.xor_u64(Self::at(frame, IDENTITY), 1 << 33);
    }

    /// A stray write into a word of the parity.
    #[cfg(any(test, feature = "schedules"))]
    pub fn damage_parity(&self, frame: FrameNo, word: usize, xor: u64) {
        use keepfs_codes::Code;
        let base = frame as usize * self.code.parity_len();
        self.parity.xor_u64(base + 8 * word, xor);
    }
}
