//! Which bits of a frame flipped, from the CRC-64 alone: one look-up for one bit, 32,768 for two.
//!
//! The deltas of single bits stand sorted by their upper bits, with a tag of the next 16: a look-up reads about four
//! entries and works out a delta only where the tag agrees. The table (144 KiB) is read-only and is touched by
//! decoding alone.

use crate::FRAME;
use crate::crc64;
use crate::tables::NVME;

/// Bits of a frame.
const BITS: usize = FRAME * 8;
/// Upper bits of a delta that choose a bucket.
const BUCKET_BITS: u32 = 13;
const BUCKETS: usize = 1 << BUCKET_BITS;

static TABLE: Table = Table::new();

struct Table {
    /// `starts[b]..starts[b + 1]` are the entries of bucket b.
    starts: [u16; BUCKETS + 1],
    /// Tag in the upper half, number of the bit in the lower.
    entries: [u32; BITS],
}

impl Table {
    const fn new() -> Self {
        let mut starts = [0u16; BUCKETS + 1];
        let mut delta = last_bit();
        let mut bit = BITS;
        while bit > 0 {
            bit -= 1;
            starts[bucket(delta) + 1] += 1;
            delta = NVME.step(delta);
        }
        let mut b = 0;
        while b < BUCKETS {
            starts[b + 1] += starts[b];
            b += 1;
        }
        let mut entries = [0; BITS];
        let mut next = starts;
        let mut delta = last_bit();
        let mut bit = BITS;
        while bit > 0 {
            bit -= 1;
            let at = bucket(delta);
            entries[next[at] as usize] = (tag(delta) << 16) | bit as u32;
            next[at] += 1;
            delta = NVME.step(delta);
        }
        Self { starts, entries }
    }
}

/// The delta of the frame's last bit: x^64. Each bit before it is one step more.
const fn last_bit() -> u64 {
    NVME.power(64)
}

const fn bucket(delta: u64) -> usize {
    (delta >> (64 - BUCKET_BITS)) as usize
}

const fn tag(delta: u64) -> u32 {
    ((delta >> (48 - BUCKET_BITS)) & 0xffff) as u32
}

/// The delta of the frame's bit `bit` (bit 0 is the least significant of byte 0).
fn delta_of(bit: usize) -> u64 {
    crc64::delta_word(bit / 64, 1 << (bit % 64))
}

/// The bit whose flip has the delta `syndrome`, if there is one.
pub(crate) fn single(syndrome: u64) -> Option<usize> {
    let at = bucket(syndrome);
    let range = usize::from(TABLE.starts[at])..usize::from(TABLE.starts[at + 1]);
    let tag = tag(syndrome);
    let same_tag = TABLE.entries[range].iter().filter(|entry| **entry >> 16 == tag);
    same_tag
        .map(|entry| (entry & 0xffff) as usize)
        .find(|bit| delta_of(*bit) == syndrome)
}

/// Hands `each` every pattern of two flipped bits whose delta is `syndrome`. (At most one exists: S-1.2's code has
/// distance 5 or more on a frame.)
pub(crate) fn pairs(syndrome: u64, mut each: impl FnMut([u8; FRAME])) {
    let mut delta = last_bit();
    for bit in (0..BITS).rev() {
        if let Some(other) = single(syndrome ^ delta).filter(|other| *other < bit) {
            each(pattern(&[bit, other]));
        }
        delta = NVME.step(delta);
    }
}

/// The pattern of some flipped bits.
pub(crate) fn pattern(bits: &[usize]) -> [u8; FRAME] {
    let mut pattern = [0; FRAME];
    for bit in bits {
        pattern[bit / 8] ^= 1 << (bit % 8);
    }
    pattern
}

#[cfg(test)]
mod tests;
