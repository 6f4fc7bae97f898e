//! Looks at what nobody asked for: what one came to, and which frames are looked at (S-19.1, S-19.2).

use crate::frames::Frames;
use core::mem::offset_of;
use core::ops::{AddAssign, Range};
use keepfs_format::inode::PER_BLOCK;
use keepfs_format::{Header, PAGE, Space};
use keepfs_vault::arena::FrameNo;
use std::collections::BTreeSet;

/// What a slice of a scrub came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Looked {
    /// Frames, or pages of the device, that were looked at.
    pub pages: u64,
    /// Those of them that were not what they should be.
    pub bad: u64,
    /// Those of the bad that were mended, or will be by the next checkpoint.
    pub mended: u64,
}

impl Looked {
    /// Those of the bad that cannot be mended.
    pub fn lost(&self) -> u64 {
        self.bad - self.mended.min(self.bad)
    }
}

impl AddAssign for Looked {
    fn add_assign(&mut self, other: Looked) {
        self.pages += other.pages;
        self.bad += other.bad;
        self.mended += other.mended;
    }
}

impl Frames {
    /// All frames, those first that were verified longest ago.
    pub fn by_age(&self) -> Vec<FrameNo> {
        let mut frames: Vec<FrameNo> = (0..self.arena.count()).collect();
        frames.sort_by_cached_key(|frame| self.cache.slot(*frame).seen.at());
        frames
    }

    /// The frames that hold bytes of these addresses, as events tell them.
    pub fn at(&self, addresses: Range<usize>) -> Range<FrameNo> {
        let start = self.arena.shown_address();
        let frame = |address: usize| (address.saturating_sub(start) / PAGE).min(self.arena.count() as usize) as FrameNo;
        match addresses.is_empty() {
            true => 0..0,
            false => frame(addresses.start)..frame(addresses.end.saturating_add(PAGE - 1)),
        }
    }

    /// The frames that hold metadata of these inodes: their slots, and the nodes that say they are theirs (S-3.2).
    pub fn of_inodes(&self, inodes: &BTreeSet<u64>) -> Vec<FrameNo> {
        let owned = |frame: &FrameNo| {
            let id = self.cache.slot(*frame).id();
            let first = id.index().saturating_mul(PER_BLOCK);
            match id.space() {
                Some(Space::Inodes) => inodes.range(first..first.saturating_add(PER_BLOCK)).next().is_some(),
                Some(Space::Nodes) => inodes.contains(&self.owner_in(*frame)),
                _ => false,
            }
        };
        (0..self.arena.count()).filter(owned).collect()
    }

    /// The owner that a header tells; 0: it is not right now.
    fn owner_in(&self, frame: FrameNo) -> u64 {
        let mut owner = [0; 8];
        let binding = self.arena.binding(frame);
        let read = self.arena.load(frame, binding, offset_of!(Header, owner), &mut owner);
        read.map_or(0, |()| u64::from_le_bytes(owner))
    }
}
