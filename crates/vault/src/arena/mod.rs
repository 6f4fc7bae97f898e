//! The arena: 4 KiB frames under guard, each with control words (S-13.1), sums of its lines (S-13.12, S-15.20) and parity (S-15.1) in
//! regions of their own.
//!
//! Invariants:
//! A-1 A frame's bytes change only by [`Arena::fill`] (whole frame, nobody else may see it), by a repair that holds the
//!     frame (`hold`), and by the door.
//! A-2 Between `enter` and `leave` of the last writer sums and parity are those of the bytes only
//!     when nobody scribbled; outside it they always are.
//! A-3 What is verified is a private copy, and what is used or goes to the device is that copy (S-15.19).
//! A-4 Bytes that are used leave by `lines` or by [`Arena::verified_copy`]; [`Arena::load_raw`] is for evidence.

mod adopt;
mod control;
mod hold;
mod keyed;
mod lines;
mod printed;
#[cfg(any(test, feature = "strays"))]
mod strays;
mod waiting;

pub(crate) use control::UNBOUND;
pub use hold::Held;
pub use lines::{Damaged, Line};

use crate::error::Error;
use crate::locks::held;
use control::{CONTROL, GATE, WRITERS};
use core::sync::atomic::Ordering;
use keepfs_codes::identity::{Binding, Group};
use keepfs_codes::{Code, PARITY_MAX, Protection, Verified, crc64, line};
use keepfs_format::PAGE;
use keepfs_memory::{FRAMES, Guard, Region};
use keyed::Keyed;
use std::sync::Arc;
use waiting::Waiting;

/// Number of a frame.
pub type FrameNo = u32;
/// A private copy of a frame.
pub type Copy = Box<[u8; PAGE]>;

/// How often a verifier tries before it sets the gate (S-15.29).
const TRIES: u32 = 8;
/// Bytes of a frame that are asked for ahead: what the processor itself begins to read ahead comes behind them.
const AHEAD: usize = 768;
/// Parity of most codes: a buffer of this size costs nothing to clear.
const PARITY_FEW: usize = 128;

/// Frames, their control words and their parity.
pub struct Arena {
    frames: Region,
    control: Region,
    parity: Region,
    count: u32,
    code: Protection,
    /// Of the keyed sums (S-15.18), if there are any.
    keys: Option<Box<Keyed>>,
}

/// A frame's bytes are not what the sums of its lines say; if both are equal, its parity, keyed sum or name is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// CRC-64 of the bytes found.
    pub found: u64,
    /// The CRC-64 that the sums make.
    pub expected: u64,
}

/// A private copy being made of a frame, and room for its parity.
struct Look<'b> {
    copy: &'b mut [u8; PAGE],
    parity: &'b mut [u8],
    /// The frame will be filled with something else next.
    to_fill: bool,
}

impl Arena {
    /// An arena of `count` frames, all zero, with the code `crc`.
    pub fn new(count: u32, guard: Guard, seal: bool) -> Result<Arena, Error> {
        Arena::protected(count, guard, seal, Protection::Crc)
    }

    /// The same with any code whose sums merge by XOR.
    pub fn protected(count: u32, guard: Guard, seal: bool, code: Protection) -> Result<Arena, Error> {
        Arena::made_by(Region::new, count, (guard, seal), code)
    }

    /// The same, and its descriptors are kept for who comes after this process (S-16.1).
    pub fn lasting(count: u32, guard: Guard, seal: bool, code: Protection) -> Result<Arena, Error> {
        Arena::made_by(Region::lasting, count, (guard, seal), code)
    }

    fn made_by(
        make: impl Fn(&str, usize, Guard, bool) -> std::io::Result<Region>,
        count: u32,
        (guard, seal): (Guard, bool),
        code: Protection,
    ) -> Result<Arena, Error> {
        if code == Protection::Adler {
            return Err(Error::Code("adler is a code for comparison only".into()));
        }
        let region = |name, each| {
            let bytes = count as usize * each;
            make(name, bytes, guard, seal).map_err(|source| Error::Memory {
                bytes,
                source: Arc::new(source),
            })
        };
        let frames = region(FRAMES, PAGE)?;
        let control = region("keepfs-sums", CONTROL + lines::SUMS)?;
        let parity = region("keepfs-parity", code.parity_len())?;
        Ok(Arena {
            frames,
            control,
            parity,
            count,
            code,
            keys: Keyed::drawn(code)?,
        })
    }

    /// What guards the frames (S-15.1).
    #[inline]
    pub fn code(&self) -> Protection {
        self.code
    }

    /// Number of frames.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Where everybody reads the frames, one behind the other. For fault injection and tests: a store there must fault.
    pub fn shown_address(&self) -> usize {
        self.frames.shown_address()
    }

    /// Copies bytes out of a frame as they lie there, right or not: for evidence, measurements and tests. The range is within
    /// the frame.
    #[inline]
    pub fn load_raw(&self, frame: FrameNo, offset: usize, buf: &mut [u8]) {
        assert!(is_within(offset, buf.len()), "read beyond the frame");
        self.frames.load(frame as usize * PAGE + offset, buf);
    }

    /// Asks the processor for the control words and the first bytes of a frame that is going to be read (decision 0673).
    #[inline]
    pub fn prefetch(&self, frame: FrameNo) {
        self.frames.prefetch(frame as usize * PAGE, AHEAD);
        self.control.prefetch(Self::at(frame, 0), CONTROL);
        self.prefetch_sums(frame);
    }

    /// A free frame is going to be filled. Those that were never used are taken in ascending order (decision 0673).
    pub fn about_to_use(&self, frame: FrameNo) {
        self.frames.about_to_use(frame as usize * PAGE);
    }

    /// Fills a frame that nobody else can see with `bytes`, whose CRC-64 is `crc`; it belongs to no metablock.
    pub fn fill(&self, frame: FrameNo, bytes: &[u8; PAGE], crc: u64) {
        self.fill_as(frame, bytes, crc, UNBOUND);
    }

    /// Fills a frame that nobody else can see with `bytes` of a metablock, whose CRC-64 is `crc` (fetch, birth).
    pub fn fill_as(&self, frame: FrameNo, bytes: &[u8; PAGE], crc: u64, binding: Binding) {
        // A writer, so that whoever finds it half filled after a kill knows that (S-16.4).
        self.enter(frame);
        self.bind(frame, binding);
        self.put_whole(frame, bytes, crc);
        self.leave(frame);
    }

    /// Replaces a frame's content by other verified bytes whose CRC-64 is `crc` (map pages, after a checkpoint).
    pub fn refill(&self, frame: FrameNo, bytes: &[u8; PAGE], crc: u64) {
        self.enter(frame);
        self.put_whole(frame, bytes, crc);
        self.leave(frame);
    }

    /// Bytes, parity and sums, absolutely.
    fn put_whole(&self, frame: FrameNo, bytes: &[u8; PAGE], crc: u64) {
        self.frames.store(frame as usize * PAGE, bytes);
        self.encode(frame, bytes, crc);
    }

    /// Parity and sums of bytes whose CRC-64 is known to be `crc`. Of others no parity is encoded (S-15.3), and the sums of
    /// the lines make `crc` all the same, so that they do not verify.
    fn encode(&self, frame: FrameNo, bytes: &[u8; PAGE], crc: u64) {
        if self.code == Protection::Off {
            return;
        }
        let (mut sums, content) = Verified::by_lines(bytes, crc);
        match content {
            Some(content) => self.encode_parity(frame, content),
            None => sums[0] ^= line::crc(&sums) ^ crc,
        }
        self.set_sums(frame, &sums);
        self.set_keyed(frame, bytes);
    }

    fn encode_parity(&self, frame: FrameNo, content: Verified<'_>) {
        let len = self.code.parity_len();
        let mut parity = [0; PARITY_MAX];
        self.code.encode(content, &mut parity[..len]);
        self.parity.store(frame as usize * len, &parity[..len]);
    }

    /// Door, steps 3 and 4: sum and parity absorb a change of one line by a caller of `group`. `delta`: its CRC-64 delta.
    #[inline]
    pub(crate) fn fold(&self, frame: FrameNo, group: Group, (offset, old, new): (usize, &[u8], &[u8]), delta: u64) {
        if self.code == Protection::Off {
            return;
        }
        self.xor_sum(frame, offset, group.fold(delta));
        self.fold_keyed(frame, (offset, old, new));
        if self.is_printed() {
            // The parity is encoded when the bytes are stored.
            return;
        }
        let base = frame as usize * self.code.parity_len();
        self.code.fold(offset, old, new, |word, xor| {
            if xor != 0 {
                self.parity.xor_u64(base + 8 * word, xor);
            }
        });
    }

    /// Door, step 5: the bytes go through the window. `false`: they did not check afterwards, where that is looked at
    /// ([`printed`]).
    #[inline]
    pub(crate) fn copy(&self, frame: FrameNo, offset: usize, bytes: &[u8]) -> bool {
        assert!(is_within(offset, bytes.len()), "write beyond the frame");
        if self.is_printed() {
            return self.write_blocks(frame, offset, bytes, true);
        }
        self.frames.store(frame as usize * PAGE + offset, bytes);
        true
    }

    /// Door, step 5 for bits: atomic XOR of one byte; as [`Arena::copy`].
    #[inline]
    pub(crate) fn flip(&self, frame: FrameNo, offset: usize, mask: u8) -> bool {
        assert!(is_within(offset, 1), "write beyond the frame");
        if self.is_printed() {
            return self.write_printed(frame, offset..offset + 1, &mut |_, byte| byte[0] ^= mask);
        }
        self.frames.xor_u8(frame as usize * PAGE + offset, mask);
        true
    }

    /// Restart: the bytes of a frame as they were before the open transactions, while nobody else is there.
    pub(crate) fn restore(&self, frame: FrameNo, offset: usize, bytes: &[u8]) {
        assert!(is_within(offset, bytes.len()), "write beyond the frame");
        self.frames.store(frame as usize * PAGE + offset, bytes);
    }

    /// Restart: parity of an image that was proved, absolutely (S-13.6).
    pub(crate) fn restore_parity(&self, frame: FrameNo, image: &[u8; PAGE]) {
        self.encode_parity(frame, Verified::made(image));
        self.set_keyed(frame, image);
    }

    /// A private copy of the frame, verified against sums and parity while others may write (S-15.19).
    pub fn verified_copy(&self, frame: FrameNo, copy: &mut [u8; PAGE]) -> Result<u64, Mismatch> {
        self.verified_as(frame, copy, false)
    }

    /// The same of a frame that will be filled with something else next.
    pub fn verified_to_fill(&self, frame: FrameNo, copy: &mut [u8; PAGE]) -> Result<u64, Mismatch> {
        self.verified_as(frame, copy, true)
    }

    fn verified_as(&self, frame: FrameNo, copy: &mut [u8; PAGE], to_fill: bool) -> Result<u64, Mismatch> {
        let (mut few, mut most);
        let parity = match self.code.parity_len() {
            len @ ..=PARITY_FEW => {
                few = [0; PARITY_FEW];
                &mut few[..len]
            }
            len => {
                most = [0; PARITY_MAX];
                &mut most[..len]
            }
        };
        self.verified(frame, Look { copy, parity, to_fill })
    }

    fn verified(&self, frame: FrameNo, mut look: Look<'_>) -> Result<u64, Mismatch> {
        held::may_wait();
        for _ in 0..TRIES {
            if let Some(result) = self.try_copy(frame, &mut look, 0) {
                return result;
            }
            core::hint::spin_loop();
        }
        self.shut_gate(frame);
        let mut waiting = Waiting::on(frame);
        let result = loop {
            if let Some(result) = self.try_copy(frame, &mut look, GATE) {
                break result;
            }
            waiting.pause();
        };
        self.open_gate(frame);
        result
    }

    /// One attempt: `None` if somebody wrote meanwhile, else the version or the mismatch.
    fn try_copy(&self, frame: FrameNo, look: &mut Look<'_>, gate: u64) -> Option<Result<u64, Mismatch>> {
        let before = self.word(frame);
        if before & WRITERS != 0 {
            return None;
        }
        match look.to_fill {
            true => self.frames.load_to_write(frame as usize * PAGE, look.copy),
            false => self.load_raw(frame, 0, look.copy),
        }
        self.load_parity(frame, look.parity);
        let (sums, keyed) = (self.line_sums(frame), self.keyed(frame));
        let expected = line::crc(&sums);
        core::sync::atomic::fence(Ordering::Acquire);
        let after = self.word(frame);
        if (before | gate) != (after | gate) {
            return None;
        }
        let is_right = self.code.verify(look.copy, look.parity, expected)
            && self.is_keyed(look.copy, keyed)
            && self.is_bound(look.copy, &sums);
        if is_right {
            return Some(Ok(after >> 16));
        }
        let found = crc64::full(look.copy);
        Some(Err(Mismatch { found, expected }))
    }

    /// Whether the sums are those of the metablock that the control words name: all of them together do not have its identity.
    fn is_bound(&self, copy: &[u8; PAGE], sums: &[u64; line::LINES]) -> bool {
        let first = copy.first_chunk().map(|first| line::sum(0, first));
        self.code == Protection::Off || first == Some(sums[0])
    }

    #[inline]
    fn load_parity(&self, frame: FrameNo, parity: &mut [u8]) {
        self.parity.load(frame as usize * parity.len(), parity);
    }
}

/// Whether so many bytes from there on lie in a frame, whatever the numbers are.
#[inline]
pub fn is_within(offset: usize, len: usize) -> bool {
    offset <= PAGE && len <= PAGE - offset
}

#[cfg(test)]
mod tests;
