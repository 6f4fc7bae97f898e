//! The lines of frames and their sums (S-15.20): the one way by which bytes of a frame leave the arena to be used (S-15.19).
//!
//! Bytes and sum that agree are right, whatever lies between the loads of one and the other: folds merge, so they agree only
//! if the copy is the right bytes as they were when the sum was read (decision 0780). Only where they do not agree is the
//! frame's word asked whether somebody is changing it.
//!
//! Invariants:
//! L-1 What is handed out is the copy that was compared, never another load of the same bytes.
//! L-2 Who looks at a line is no writer of its frame: it may wait for all of them.
//! L-3 The sum of a line is that of the right bytes from a change's fold on; the sum of no line is ever made from bytes of a
//!     frame that nothing else proves (S-15.3).

use super::control::{CONTROL, GATE, WRITERS};
use super::waiting::Waiting;
use super::{Arena, FrameNo, TRIES, is_within};
use crate::locks::held;
use crate::planted::{self, Use};
use core::sync::atomic::Ordering;
use keepfs_codes::identity::Binding;
use keepfs_codes::line::{self, LINE, LINES};
use keepfs_codes::{Protection, crc64};
use keepfs_format::PAGE;

/// Bytes of a frame's line sums: two cache lines, behind the control words of all frames.
pub(super) const SUMS: usize = 8 * LINES;

/// A line in private memory that had its sum when it was copied (L-1).
#[derive(Debug)]
pub struct Line {
    number: usize,
    bytes: [u8; LINE],
}

impl Line {
    /// No line: its bytes are nobody's.
    #[inline]
    pub const fn none() -> Line {
        Line {
            number: LINES,
            bytes: [0; LINE],
        }
    }

    /// The `len` bytes at `offset` of the frame. Those that the line does not have are a caller's error.
    #[inline]
    pub fn at(&self, offset: usize, len: usize) -> &[u8] {
        let from = offset.wrapping_sub(self.number * LINE);
        &self.bytes[from..from + len]
    }

    /// Which line it is.
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }
}

/// The bytes of this line are not those that its sum tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged {
    /// Its number.
    pub line: usize,
}

impl Arena {
    #[inline]
    fn sum_at(&self, frame: FrameNo, number: usize) -> usize {
        self.count as usize * CONTROL + frame as usize * SUMS + 8 * number
    }

    /// What is kept for a line. No lock of the region is taken: what the system has written in part disagrees, and is looked
    /// at again.
    #[inline]
    fn kept(&self, frame: FrameNo, number: usize) -> u64 {
        self.control.load_plain(self.sum_at(frame, number), Ordering::Acquire)
    }

    /// The sums of the lines, if the frame belongs to `binding`.
    #[inline]
    pub(super) fn sums(&self, frame: FrameNo, binding: Binding) -> [u64; LINES] {
        core::array::from_fn(|number| binding.sum(number, self.kept(frame, number)))
    }

    /// The CRC-64 that the sums of the lines make.
    pub fn sum(&self, frame: FrameNo) -> u64 {
        line::crc(&self.line_sums(frame))
    }

    /// The sums of the lines, by the control words.
    #[inline]
    pub(crate) fn line_sums(&self, frame: FrameNo) -> [u64; LINES] {
        self.sums(frame, self.binding(frame))
    }

    /// Restart: the sum of a line that was proved, absolutely, by one store (S-13.6).
    pub(crate) fn restore_sum(&self, frame: FrameNo, number: usize, sum: u64) {
        let kept = self.binding(frame).keep(number, sum);
        self.control.store_u64(self.sum_at(frame, number), kept);
    }

    /// Stores the sums of the lines, absolutely.
    pub(super) fn set_sums(&self, frame: FrameNo, sums: &[u64; LINES]) {
        let binding = self.binding(frame);
        let mut kept = [0; SUMS];
        let (words, _) = kept.as_chunks_mut();
        for (number, (word, sum)) in words.iter_mut().zip(sums).enumerate() {
            *word = binding.keep(number, *sum).to_ne_bytes();
        }
        self.control.store(self.sum_at(frame, 0), &kept);
    }

    /// The sum of the line that has `offset` absorbs what a caller of some group folded, one atomic XOR.
    #[inline]
    pub(super) fn xor_sum(&self, frame: FrameNo, offset: usize, folded: u64) {
        self.control.xor_u64(self.sum_at(frame, line::at(offset)), folded);
    }

    /// Asks the processor for the line sums of a frame.
    #[inline]
    pub(super) fn prefetch_sums(&self, frame: FrameNo) {
        self.control.prefetch(self.sum_at(frame, 0), SUMS);
    }

    /// Copies bytes out of a frame of `binding`, each line verified in the copy from which they come. The range is within the
    /// frame. Errors: the first line that is not right; what was copied before it is.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub fn load(&self, frame: FrameNo, binding: Binding, offset: usize, buf: &mut [u8]) -> Result<(), Damaged> {
        assert!(is_within(offset, buf.len()), "read beyond the frame");
        let (mut at, mut rest) = (offset, buf);
        let mut line = Line::none();
        while !rest.is_empty() {
            let len = rest.len().min(LINE - at % LINE);
            let (part, behind) = rest.split_at_mut(len);
            self.line(frame, binding, line::at(at), &mut line)?;
            part.copy_from_slice(line.at(at, len));
            at += len;
            rest = behind;
        }
        Ok(())
    }

    /// A line of a frame of `binding`, into `line`.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub fn line(&self, frame: FrameNo, binding: Binding, number: usize, line: &mut Line) -> Result<(), Damaged> {
        held::may_wait();
        match self.try_line(frame, binding, number, line) {
            true => Ok(()),
            false if planted::omits(Use::DamageAtOnce) => Err(Damaged { line: number }),
            false => self.line_again(frame, binding, number, line),
        }
    }

    /// One look at a line. `false`, and no line: bytes and sum did not agree, because somebody is changing it or because it
    /// is damaged.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn try_line(&self, frame: FrameNo, binding: Binding, number: usize, line: &mut Line) -> bool {
        planted::look(frame, Some(number));
        self.frames
            .load_line(frame as usize * PAGE + number * LINE, &mut line.bytes);
        let is_right = self.code == Protection::Off
            || planted::is_blind()
            || binding.keep(number, line::sum(number, &line.bytes)) == self.kept(frame, number);
        if planted::omits(Use::VerifyThenLoad) {
            let _blind = planted::blind(Use::VerifyThenLoad);
            planted::look(frame, Some(number));
            self.frames
                .load_line(frame as usize * PAGE + number * LINE, &mut line.bytes);
        }
        line.number = if is_right { number } else { LINES };
        is_right
    }

    /// Bytes and sum did not agree: looks until they do, or until they disagree though nobody was changing the frame.
    #[cold]
    #[inline(never)]
    fn line_again(&self, frame: FrameNo, binding: Binding, number: usize, line: &mut Line) -> Result<(), Damaged> {
        let look = || self.try_line(frame, binding, number, line);
        match self.undisturbed(frame, look) {
            true => Ok(()),
            false => Err(Damaged { line: number }),
        }
    }

    /// All bytes of a frame of `binding`, verified by all its lines. Errors: a line that is not right.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub fn whole(&self, frame: FrameNo, binding: Binding, copy: &mut [u8; PAGE]) -> Result<(), Damaged> {
        held::may_wait();
        planted::look(frame, None);
        self.load_raw(frame, 0, copy);
        if self.code == Protection::Off || planted::is_blind() {
            return Ok(());
        }
        let mut kept = [0; SUMS];
        self.control.load_line(self.sum_at(frame, 0), &mut kept);
        let kept = kept.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
        let agrees = crc64::full(copy) == binding.crc(kept.fold(0, |all, word| all ^ word));
        // The identity is in an even number of sums, which together do not have it.
        match agrees && self.binding(frame) == binding {
            true => {
                if planted::omits(Use::VerifyThenLoad) {
                    let _blind = planted::blind(Use::VerifyThenLoad);
                    planted::look(frame, None);
                    self.load_raw(frame, 0, copy);
                }
                Ok(())
            }
            false => self.load(frame, binding, 0, copy),
        }
    }

    /// Calls `look` until it agrees, or until it does not though nobody was changing the frame: then `false`.
    ///
    /// While a writer who was interrupted stands in the word others run; only who meets new writers eight times shuts the gate.
    fn undisturbed(&self, frame: FrameNo, mut look: impl FnMut() -> bool) -> bool {
        let (mut tries, mut seen, mut waiting) = (0, 0, Waiting::on(frame));
        while tries < TRIES {
            let before = self.word(frame);
            let looked = look();
            core::sync::atomic::fence(Ordering::Acquire);
            let is_quiet = || before & WRITERS == 0 && (self.word(frame) | GATE) == (before | GATE);
            if looked || is_quiet() {
                return looked;
            }
            tries += u32::from(before != seen);
            seen = before;
            waiting.pause();
        }
        self.shut_gate(frame);
        while self.word(frame) & WRITERS != 0 {
            waiting.pause();
        }
        let looked = look();
        self.open_gate(frame);
        looked
    }
}

#[cfg(any(test, feature = "schedules"))]
impl Arena {
    /// A line that nobody compared with its sum: for tests that show what comes of it.
    pub fn line_as_it_is(&self, frame: FrameNo, number: usize) -> Line {
        let mut bytes = [0; LINE];
        self.load_raw(frame, number * LINE, &mut bytes);
        Line { number, bytes }
    }
}

#[cfg(test)]
mod tests;
