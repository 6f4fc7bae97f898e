//! How much of the metablocks that a group touches is new.

use keepfs_format::PAGE;

/// Bytes of an update record before its ranges: type, length, id, generation, number of ranges (S-8.5).
const UPDATE_HEAD: usize = 18;

/// Upper bounds of the buckets of [`Updates::dirty_sizes`], bytes (ReconFS Fig. 9).
pub const DIRTY_SIZES: [usize; 8] = [64, 128, 256, 512, 1024, 2048, 3072, PAGE];

/// The update records of a group (S-8.5, type 1).
#[derive(Default)]
pub struct Updates {
    /// How many.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many have at most so many new bytes.
    pub dirty_sizes: [u64; DIRTY_SIZES.len()],
}

impl Updates {
    /// One more, of so many ranges with so many bytes.
    pub fn count(&mut self, ranges: usize, dirty: usize) {
        self.pages += 1;
        self.bytes += (UPDATE_HEAD + 4 * ranges + dirty) as u64;
        let bucket = DIRTY_SIZES.partition_point(|most| *most < dirty);
        self.dirty_sizes[bucket.min(DIRTY_SIZES.len() - 1)] += 1;
    }
}
