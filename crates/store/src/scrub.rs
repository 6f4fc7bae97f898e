//! Scrub: looking at what nobody asked for, in memory and at rest, a slice at a time (SPEC section 19).
//!
//! What a slice is, and when the next one comes, the caller decides. What is found takes the same way as what is found by
//! accident: a frame is mended as S-15.14 says, a bad copy is written anew by the next checkpoint (S-4.6).
//!
//! Invariants:
//! U-1 Nothing is believed bad that was read while it changed: the map entry is the same before and after the reading.
//! U-2 A scrub is no use of a frame: it does not keep it from being replaced.

mod frames;
mod memory;
mod rest;

pub use rest::RestPlace;

use core::ops::AddAssign;

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

#[cfg(test)]
mod tests;
