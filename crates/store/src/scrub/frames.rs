//! Frames of the arena: which ones, and the look at one (S-19.1, S-19.2).

use super::Looked;
use crate::Store;
use crate::repair::kind_in;
use core::mem::offset_of;
use core::ops::Range;
use keepfs_flash::scratch::with_page;
use keepfs_format::inode::PER_BLOCK;
use keepfs_format::{Header, PAGE, Space};
use keepfs_vault::arena::FrameNo;
use std::collections::BTreeSet;

impl Store {
    /// Looks at a frame: its bytes are held against parity and sum, and what is wrong is mended if it can be (S-15.14).
    /// Nothing if it holds no metablock. Bad and not mended: it does not verify after all that can be done.
    pub fn scrub_frame(&self, frame: FrameNo) -> Looked {
        let mut looked = Looked::default();
        if frame >= self.frames.arena.count() {
            return looked;
        }
        let id = self.frames.cache.slot(frame).id();
        let Some(pin) = self.frames.cache.peek(id).filter(|pin| pin.frame == frame) else {
            return looked;
        };
        looked.pages = 1;
        with_page(|copy| {
            if self.frames.arena.verified_copy(frame, copy).is_ok() && self.is_bound(frame, id, kind_in(copy)) {
                pin.slot().seen_right(&self.frames.clock);
                return;
            }
            looked.bad = 1;
            looked.mended = u64::from(self.verified_copy(&pin, copy).is_ok());
        });
        looked
    }

    /// All frames, those first that were verified longest ago.
    pub fn frames_by_age(&self) -> Vec<FrameNo> {
        let mut frames: Vec<FrameNo> = (0..self.frames.arena.count()).collect();
        frames.sort_by_cached_key(|frame| self.frames.cache.slot(*frame).seen.at());
        frames
    }

    /// The frames that hold bytes of these addresses, as events tell them.
    pub fn frames_at(&self, addresses: Range<usize>) -> Range<FrameNo> {
        let start = self.frames.arena.shown_address();
        let frame =
            |address: usize| (address.saturating_sub(start) / PAGE).min(self.frames.arena.count() as usize) as FrameNo;
        match addresses.is_empty() {
            true => 0..0,
            false => frame(addresses.start)..frame(addresses.end.saturating_add(PAGE - 1)),
        }
    }

    /// The frames that hold metadata of these inodes: their slots, and the nodes that say they are theirs (S-3.2).
    pub fn frames_of(&self, inodes: &BTreeSet<u64>) -> Vec<FrameNo> {
        let owned = |frame: &FrameNo| {
            let id = self.frames.cache.slot(*frame).id();
            let first = id.index().saturating_mul(PER_BLOCK);
            match id.space() {
                Some(Space::Inodes) => inodes.range(first..first.saturating_add(PER_BLOCK)).next().is_some(),
                Some(Space::Nodes) => inodes.contains(&self.owner_in(*frame)),
                _ => false,
            }
        };
        (0..self.frames.arena.count()).filter(owned).collect()
    }

    /// The owner that a header tells; 0: it is not right now.
    fn owner_in(&self, frame: FrameNo) -> u64 {
        let mut owner = [0; 8];
        let binding = self.frames.arena.binding(frame);
        let read = self
            .frames
            .arena
            .load(frame, binding, offset_of!(Header, owner), &mut owner);
        read.map_or(0, |()| u64::from_le_bytes(owner))
    }
}
