//! A frame held for repair: nobody writes, verifiers wait (PROTOCOLS section 3: repair takes the gate).

use super::control::{Lines, WRITERS};
use super::waiting::Waiting;
use super::{Arena, FrameNo};
use keepfs_codes::identity::Binding;
use keepfs_codes::{Code, PARITY_MAX, Repair, Verdict, Verified};
use keepfs_format::PAGE;

/// A frame that nobody else writes to while it lives. Its holder counts as a writer, so that verifiers wait.
pub(crate) struct Held<'a> {
    arena: &'a Arena,
    frame: FrameNo,
    bytes: Box<[u8; PAGE]>,
}

impl Arena {
    /// Waits until nobody writes to the frame, and holds it. The caller is no writer of it.
    pub(crate) fn hold(&self, frame: FrameNo) -> Held<'_> {
        self.shut_gate(frame);
        let mut waiting = Waiting::on(frame);
        while self.word(frame) & WRITERS != 0 {
            waiting.pause();
        }
        self.enter_held(frame);
        let mut bytes = Box::new([0; PAGE]);
        self.load(frame, 0, &mut *bytes);
        Held {
            arena: self,
            frame,
            bytes,
        }
    }
}

impl Held<'_> {
    /// The frame's bytes.
    pub(crate) fn bytes(&self) -> &[u8; PAGE] {
        &self.bytes
    }

    /// Whose frame it is according to its control words.
    pub(crate) fn binding(&self) -> Binding {
        self.arena.binding(self.frame)
    }

    /// Version of its content.
    pub(crate) fn version(&self) -> u64 {
        self.arena.word(self.frame) >> 16
    }

    /// The CRC-64 that the frame should have, if it belongs to `binding`.
    pub(crate) fn expected(&self, binding: Binding) -> u64 {
        binding.crc(self.arena.rolling(self.frame))
    }

    /// What bytes, parity and sums say together, if the frame belongs to `binding`: what the keyed sum does not confirm is
    /// not for the code to decide (S-15.18). Changes nothing.
    pub(crate) fn locate(&self, binding: Binding) -> Verdict {
        let verdict = self.located(binding);
        let keyed = self.arena.keyed(self.frame);
        let agrees = match &verdict {
            Verdict::Repair(repair) => {
                let mut right = *self.bytes;
                repair.apply(&mut right);
                self.arena.is_keyed(&right, keyed)
            }
            Verdict::Clean | Verdict::ParityBad | Verdict::SumBad { .. } => self.arena.is_keyed(&self.bytes, keyed),
            Verdict::Ambiguous | Verdict::Uncorrectable { .. } => return verdict,
        };
        match agrees {
            true => verdict,
            false => Verdict::Uncorrectable { parity_agrees: false },
        }
    }

    /// What bytes, parity and rolling sum say.
    fn located(&self, binding: Binding) -> Verdict {
        let mut parity = [0; PARITY_MAX];
        let parity = &mut parity[..self.arena.code.parity_len()];
        self.arena.load_parity(self.frame, parity);
        self.arena.code.locate(&self.bytes, parity, self.expected(binding))
    }

    /// Lines written since the frame was last verified (S-15.11).
    pub(crate) fn written(&self) -> Lines {
        self.arena.written(self.frame)
    }

    /// Stores the bytes that a confirmed repair changes, through the door's window.
    pub(crate) fn correct(&mut self, repair: &Repair) {
        repair.apply(&mut self.bytes);
        for range in repair.ranges() {
            self.arena.copy(self.frame, range.start, &self.bytes[range]);
        }
    }

    /// Parity of bytes that the sum confirms.
    pub(crate) fn encode_parity(&self, binding: Binding) {
        if let Some(content) = Verified::by_crc(&self.bytes, self.expected(binding)) {
            self.arena.encode_parity(self.frame, content);
        }
    }

    /// The sum of bytes that parity confirms.
    pub(crate) fn set_sum(&self, right: u64) {
        self.arena.set_sum(self.frame, right);
    }

    /// Whose frame it is.
    pub(crate) fn bind(&self, binding: Binding) {
        self.arena.bind(self.frame, binding);
    }

    /// All of it anew, from bytes that were verified elsewhere.
    pub(crate) fn replace(&mut self, bytes: &[u8; PAGE], crc: u64) {
        *self.bytes = *bytes;
        self.arena.put_whole(self.frame, bytes, crc);
    }

    /// Whether the frame, as it lies there now, agrees with parity and sums; then nothing is written since.
    pub(crate) fn verifies(&self) -> bool {
        let mut copy = [0; PAGE];
        self.arena.load(self.frame, 0, &mut copy);
        let mut parity = [0; PARITY_MAX];
        let parity = &mut parity[..self.arena.code.parity_len()];
        self.arena.load_parity(self.frame, parity);
        let right = self.arena.code.verify(&copy, parity, self.arena.sum(self.frame))
            && self.arena.is_keyed(&copy, self.arena.keyed(self.frame));
        if right {
            self.arena.clear_written(self.frame);
        }
        right
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.arena.leave(self.frame);
        self.arena.open_gate(self.frame);
    }
}
