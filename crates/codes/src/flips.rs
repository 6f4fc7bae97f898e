//! Which bits of a frame flipped, from the CRC-64 alone: one look-up for one bit, 32,768 for two.
//!
//! The deltas of single bits stand sorted by their upper bits, with a tag of the next 16: a look-up reads about four
//! entries and works out a delta only where the tag agrees. A bitmap of their upper 19 bits comes before it, for the
//! 15 of 16 look-ups that find nothing. The tables (208 KiB) are read-only and are touched by decoding alone.

use crate::FRAME;
use crate::crc64;
use crate::tables::NVME;

/// Bits of a frame.
const BITS: usize = FRAME * 8;
/// Upper bits of a delta that choose a bucket.
const BUCKET_BITS: u32 = 13;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// Upper bits of a delta that choose a bit of the bitmap.
const SEEN_BITS: u32 = 19;

static TABLE: Table = Table::new();
static SEEN: [u64; 1 << (SEEN_BITS - 6)] = seen();

const fn seen() -> [u64; 1 << (SEEN_BITS - 6)] {
    let mut words = [0; 1 << (SEEN_BITS - 6)];
    let mut delta = last_bit();
    let mut bit = BITS;
    while bit > 0 {
        bit -= 1;
        let at = delta >> (64 - SEEN_BITS);
        words[(at / 64) as usize] |= 1 << (at % 64);
        delta = NVME.step(delta);
    }
    words
}

/// Whether `delta` may be that of a single bit.
#[inline]
fn may_be_single(delta: u64) -> bool {
    let at = delta >> (64 - SEEN_BITS);
    (SEEN[(at / 64) as usize] >> (at % 64)) & 1 == 1
}

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

/// The pattern of two flipped bits whose delta is `syndrome`. (There is at most one: S-1.2's code has distance 5 or more
/// on a frame.)
pub(crate) fn pair(syndrome: u64) -> Option<[u8; FRAME]> {
    // Four chains of steps, each a quarter of the frame, so that they do not wait for each other.
    const QUARTER: usize = BITS / 4;
    let mut deltas: [u64; 4] = core::array::from_fn(|quarter| delta_of((quarter + 1) * QUARTER - 1));
    for at in (0..QUARTER).rev() {
        for (quarter, delta) in deltas.iter_mut().enumerate() {
            let rest = syndrome ^ *delta;
            let bit = quarter * QUARTER + at;
            if may_be_single(rest)
                && let Some(other) = single(rest)
                && other != bit
            {
                return Some(pattern(&[bit, other]));
            }
            *delta = NVME.step(*delta);
        }
    }
    None
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
