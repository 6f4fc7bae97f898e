//! The arena of a killed server, for evidence only (S-16.4): nothing of it is used.

use super::control::{CONTROL, VERSION, WRITERS};
use super::lines::SUMS;
use super::{Arena, FrameNo};
use crate::error::Error;
use keepfs_codes::{Code, Protection};
use keepfs_format::PAGE;
use keepfs_memory::{Guard, Region};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

impl Arena {
    /// The descriptors of frames, control words and parity, if they are kept.
    pub fn descriptors(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [&self.frames, &self.control, &self.parity].map(Region::descriptor)
    }

    /// The arena that an earlier life of the server left: frames, control words, parity. Errors: `Memory`; `Damaged` if the
    /// three are not those of one arena with this code.
    pub fn adopt(memory: [OwnedFd; 3], guard: Guard, code: Protection) -> Result<Arena, Error> {
        let region = |memory| {
            Region::adopt(memory, guard, false).map_err(|source| Error::Memory {
                bytes: 0,
                source: Arc::new(source),
            })
        };
        let [frames, control, parity] = memory;
        let (frames, control, parity) = (region(frames)?, region(control)?, region(parity)?);
        let count = frames.bytes() / PAGE;
        let fits = |region: &Region, each: usize| region.bytes() == (count * each).next_multiple_of(PAGE).max(PAGE);
        if !fits(&control, CONTROL + SUMS) || !fits(&parity, code.parity_len()) {
            return Err(Error::Damaged(
                "the arena that a server left has other sums or parity".into(),
            ));
        }
        Ok(Arena {
            frames,
            control,
            parity,
            count: count as u32,
            code,
            keys: None,
        })
    }

    /// Whether the frame was ever filled.
    #[inline]
    pub fn is_filled(&self, frame: FrameNo) -> bool {
        self.word(frame) >= VERSION
    }

    /// The frame counts as never filled.
    pub fn forget(&self, frame: FrameNo) {
        self.set_word(frame, 0);
    }

    /// Whether somebody was changing the frame when the server was killed.
    pub fn has_writer(&self, frame: FrameNo) -> bool {
        self.word(frame) & WRITERS != 0
    }
}
