//! A frame held for repair: nobody writes, verifiers wait (S-13.1).

use super::control::WRITERS;
use super::waiting::Waiting;
use super::{Arena, FrameNo};
use crate::locks::held;
use keepfs_codes::identity::Binding;
use keepfs_codes::{Code, PARITY_MAX, Protection, Repair, Verdict, Verified, line, mend};
use keepfs_format::PAGE;

/// A frame that nobody else writes to while it lives. Its holder counts as a writer, so that verifiers wait.
pub struct Held<'a> {
    arena: &'a Arena,
    frame: FrameNo,
    bytes: Box<[u8; PAGE]>,
}

impl Arena {
    /// Waits until nobody writes to the frame, and holds it. The caller is no writer of it.
    pub fn hold(&self, frame: FrameNo) -> Held<'_> {
        held::may_wait();
        self.shut_gate(frame);
        let mut waiting = Waiting::on(frame);
        while self.word(frame) & WRITERS != 0 {
            waiting.pause();
        }
        self.enter_held(frame);
        held::repairs(true);
        let mut bytes = Box::new([0; PAGE]);
        self.load_raw(frame, 0, &mut *bytes);
        Held {
            arena: self,
            frame,
            bytes,
        }
    }
}

impl Held<'_> {
    /// The frame's bytes.
    pub fn bytes(&self) -> &[u8; PAGE] {
        &self.bytes
    }

    /// Whose frame it is according to its control words.
    pub fn binding(&self) -> Binding {
        self.arena.binding(self.frame)
    }

    /// Version of its content.
    pub fn version(&self) -> u64 {
        self.arena.word(self.frame) >> 16
    }

    /// The CRC-64 that the frame should have, if it belongs to `binding`.
    pub fn expected(&self, binding: Binding) -> u64 {
        line::crc(&self.sums(binding))
    }

    /// The sums that its lines should have, if it belongs to `binding`.
    pub fn sums(&self, binding: Binding) -> [u64; line::LINES] {
        self.arena.sums(self.frame, binding)
    }

    /// What bytes, parity and sums say together, if the frame belongs to `binding` (S-15.21): what the keyed sum does not
    /// confirm is not for the code to decide (S-15.28). Changes nothing.
    pub fn locate(&self, binding: Binding) -> Verdict {
        let mut parity = [0; PARITY_MAX];
        let parity = &mut parity[..self.arena.code.parity_len()];
        self.arena.load_parity(self.frame, parity);
        mend::locate(self.arena.code, &self.bytes, parity, &self.sums(binding), |bytes| {
            self.is_keyed(bytes)
        })
    }

    /// Whether bytes agree with the frame's keyed sum (S-15.18).
    pub fn is_keyed(&self, bytes: &[u8; PAGE]) -> bool {
        self.arena.is_keyed(bytes, self.arena.keyed(self.frame))
    }

    /// Mends the frame by what [`Held::locate`] has told of it, as one that belongs to `binding`: the bytes that the code corrects
    /// are stored, and parity and sums are made of the bytes, which the code has confirmed (S-15.21). Whether it verifies
    /// then. A verdict that confirms nothing changes nothing.
    pub fn mend(&mut self, verdict: &Verdict, binding: Binding) -> bool {
        match verdict {
            Verdict::Clean | Verdict::ParityBad | Verdict::SumsBad => {}
            Verdict::Repair(repair) => self.correct(repair),
            Verdict::Ambiguous | Verdict::Uncorrectable => return false,
        }
        self.arena.bind(self.frame, binding);
        let content = Verified::made(&self.bytes);
        self.arena.encode(self.frame, content.data(), content.crc());
        self.verifies()
    }

    /// Stores the bytes that a confirmed repair changes, through the door's window.
    fn correct(&mut self, repair: &Repair) {
        repair.apply(&mut self.bytes);
        for range in repair.ranges() {
            self.arena.copy(self.frame, range.start, &self.bytes[range]);
        }
    }

    /// All of it anew, from bytes that were verified elsewhere and whose CRC-64 is `crc`: if it is another, the frame does not
    /// verify. Whose it is stays as it is.
    pub fn replace(&mut self, bytes: &[u8; PAGE], crc: u64) {
        *self.bytes = *bytes;
        self.arena.put_whole(self.frame, bytes, crc);
    }

    /// The same, and it belongs to `binding`. Whether it verifies then.
    pub fn replace_as(&mut self, bytes: &[u8; PAGE], crc: u64, binding: Binding) -> bool {
        self.arena.bind(self.frame, binding);
        self.replace(bytes, crc);
        self.verifies()
    }

    /// Whether the frame, as it lies there now, agrees with parity and sums, each of its lines by itself.
    pub fn verifies(&self) -> bool {
        let mut copy = [0; PAGE];
        self.arena.load_raw(self.frame, 0, &mut copy);
        let mut parity = [0; PARITY_MAX];
        let parity = &mut parity[..self.arena.code.parity_len()];
        self.arena.load_parity(self.frame, parity);
        let sums = line::sums(&copy);
        let has_sums = self.arena.code == Protection::Off || sums == self.sums(self.binding());
        has_sums
            && self.arena.code.verify(&copy, parity, line::crc(&sums))
            && self.arena.is_keyed(&copy, self.arena.keyed(self.frame))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        held::repairs(false);
        self.arena.leave(self.frame);
        self.arena.open_gate(self.frame);
    }
}
