//! Multiset digests: whether two parts of the code told the same items, in any order, at a cost of one digest each
//! (S-15.12; WAFL 2017, section 5.1, made collision-resistant as MSet-Add-Hash, Clarke et al. 2003).
//!
//! Count and plain sum are WAFL's; when two digests differ by one extent they name it. The keyed sums make it a matter
//! of 2^-128 that different multisets have one digest, also where errors compensate each other. Addition, not XOR: an
//! item that was freed twice must not vanish.

use crate::aes::{self, Block, Schedule};

/// The random key of a mount.
#[derive(Clone)]
pub struct Key {
    schedule: Schedule,
    /// The schedule of pairs: another first whitening.
    pairs: Schedule,
}

impl Key {
    /// Bytes of randomness a key takes.
    pub const RANDOM: usize = 96;

    /// A key from random bytes.
    pub fn new(random: &[u8; Self::RANDOM]) -> Self {
        let (words, _) = random.as_chunks::<8>();
        let block = |at: usize| (u64::from_le_bytes(words[2 * at]), u64::from_le_bytes(words[2 * at + 1]));
        let schedule: Schedule = core::array::from_fn(block);
        let mut pairs = schedule;
        pairs[0] = block(schedule.len());
        Self { schedule, pairs }
    }

    /// The sum of F(item + 1) - F(item) over `len` items from `start` on.
    #[inline]
    fn extent(&self, start: u64, len: u64) -> Block {
        aes::difference(&self.schedule, (start, 0), (start.wrapping_add(len), 0))
    }
}

/// Consecutive items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first item.
    pub start: u64,
    /// How many, at least 1.
    pub len: u64,
}

/// The digest of a multiset of u64 items; items may be taken out before they come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digest {
    /// Items in, less items out.
    pub count: i64,
    /// Their sum modulo 2^64.
    pub sum: u64,
    /// The sums of their keyed values modulo 2^64.
    keyed: Block,
}

impl Digest {
    /// One item comes in.
    #[inline]
    pub fn add(&mut self, key: &Key, item: u64) {
        self.add_extent(key, Extent { start: item, len: 1 });
    }

    /// One item goes out.
    #[inline]
    pub fn remove(&mut self, key: &Key, item: u64) {
        self.remove_extent(key, Extent { start: item, len: 1 });
    }

    /// All items of an extent come in, at the cost of one.
    #[inline]
    pub fn add_extent(&mut self, key: &Key, extent: Extent) {
        *self = self.plus(Self::of(key, extent));
    }

    /// All items of an extent go out.
    #[inline]
    pub fn remove_extent(&mut self, key: &Key, extent: Extent) {
        *self = self.minus(Self::of(key, extent));
    }

    /// An item comes in `times` times; it goes out if that is negative.
    pub fn add_times(&mut self, key: &Key, item: u64, times: i64) {
        let one = Self::of(key, Extent { start: item, len: 1 });
        *self = self.plus(one.times(times));
    }

    #[inline]
    fn times(self, times: i64) -> Self {
        let factor = times as u64;
        Self {
            count: self.count.wrapping_mul(times),
            sum: self.sum.wrapping_mul(factor),
            keyed: (self.keyed.0.wrapping_mul(factor), self.keyed.1.wrapping_mul(factor)),
        }
    }

    /// A pair comes in, such as (directory, entry's inode); its first number counts in `sum`. Pairs and items do not
    /// mix in one digest if extents of it shall be named.
    pub fn add_pair(&mut self, key: &Key, first: u64, second: u64) {
        *self = self.plus(Self::of_pair(key, first, second));
    }

    /// A pair comes in `times` times; it goes out if that is negative.
    #[inline]
    pub fn add_pair_times(&mut self, key: &Key, first: u64, second: u64, times: i64) {
        *self = self.plus(Self::of_pair(key, first, second).times(times));
    }

    /// A pair goes out.
    pub fn remove_pair(&mut self, key: &Key, first: u64, second: u64) {
        *self = self.minus(Self::of_pair(key, first, second));
    }

    /// The digest of an extent.
    #[inline]
    fn of(key: &Key, extent: Extent) -> Self {
        Self {
            count: extent.len as i64,
            sum: series(extent),
            keyed: key.extent(extent.start, extent.len),
        }
    }

    fn of_pair(key: &Key, first: u64, second: u64) -> Self {
        Self {
            count: 1,
            sum: first,
            keyed: aes::rounds(&key.pairs, (first, second)),
        }
    }

    /// Both multisets together.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.wrapping_add(other.count),
            sum: self.sum.wrapping_add(other.sum),
            keyed: (
                self.keyed.0.wrapping_add(other.keyed.0),
                self.keyed.1.wrapping_add(other.keyed.1),
            ),
        }
    }

    /// What this has more than `other`: the default digest if they are equal.
    #[inline]
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.wrapping_sub(other.count),
            sum: self.sum.wrapping_sub(other.sum),
            keyed: (
                self.keyed.0.wrapping_sub(other.keyed.0),
                self.keyed.1.wrapping_sub(other.keyed.1),
            ),
        }
    }

    /// If this is the digest of exactly one extent, or of one taken out (a negative count), the extent. Asked of the
    /// difference of two digests that should be equal it names the items that one side has alone.
    pub fn culprit(&self, key: &Key) -> Option<Extent> {
        let len = self.count.unsigned_abs();
        if len == 0 {
            return None;
        }
        let inside = if self.count < 0 {
            Self::default().minus(*self)
        } else {
            *self
        };
        // sum = len·start + len·(len - 1) / 2, taken back; what wrapped around is no extent of numbers that exist.
        let rest = inside.sum.wrapping_sub(series(Extent { start: 0, len }));
        let extent = Extent { start: rest / len, len };
        (rest % len == 0 && Self::of(key, extent) == inside).then_some(extent)
    }
}

/// The sum of an extent's items modulo 2^64.
#[inline]
fn series(extent: Extent) -> u64 {
    let len = u128::from(extent.len);
    let steps = (len * len.saturating_sub(1) / 2) as u64;
    extent.start.wrapping_mul(extent.len).wrapping_add(steps)
}

#[cfg(test)]
mod tests;
