//! Stray writes into frames, made on purpose: for tests, and for bugs that the lab plants. A product has none of this.

use super::{Arena, FrameNo, is_within};
use keepfs_format::PAGE;
use keepfs_memory::Region;

impl Arena {
    /// The memory of the frames, as whatever scribbles finds it: sums and parity do not follow what is written there.
    pub fn strays(&self) -> &Region {
        &self.frames
    }

    /// Stores bytes into a frame past the door.
    pub fn stray(&self, frame: FrameNo, offset: usize, bytes: &[u8]) {
        assert!(is_within(offset, bytes.len()), "write beyond the frame");
        self.frames.store(frame as usize * PAGE + offset, bytes);
    }
}
