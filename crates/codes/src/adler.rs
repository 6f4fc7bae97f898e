//! `adler`: Adler-32 with the incremental formula of WAFL (2017, section 4.3) and its fragments, one a processor
//! (section 4.4), for comparison with the paper (S-15.9).
//!
//! Weaker than the default on metadata: a swap of two block pointers passes once in 500 times.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::FRAME;
use crate::code::{Code, Verified};

/// The modulus: the largest prime below 2^16.
const MODULUS: u32 = 65_521;
/// Bytes after which the sums of [`of`] are reduced: 32 bits hold n·(n + 1) / 2 · 255, and n·65520.
const STEP: usize = FRAME;
const _: () = assert!(STEP * (STEP + 1) / 2 * 255 <= u32::MAX as usize);

/// The Adler-32 of `data`, of any length.
pub fn of(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1, 0);
    for part in data.chunks(STEP) {
        let (sum, weighted) = sums(part);
        b = (b + part.len() as u32 * a % MODULUS + weighted % MODULUS) % MODULUS;
        a = (a + sum) % MODULUS;
    }
    join(a, b)
}

/// Bytes that are weighted among themselves before their sum is.
const GROUP: usize = 32;

/// The sum of the bytes, and that of each byte times its distance from the end (the last byte's is 1). At most a frame.
fn sums(part: &[u8]) -> (u32, u32) {
    let (groups, tail) = part.as_chunks::<GROUP>();
    let (mut sum, mut weighted) = (0u32, 0u32);
    let mut after = part.len();
    for group in groups {
        after -= GROUP;
        let (own, own_weighted) = sums_of_group(group);
        sum += own;
        weighted += own * after as u32 + own_weighted;
    }
    for (byte, weight) in tail.iter().zip((1..=tail.len() as u32).rev()) {
        sum += u32::from(*byte);
        weighted += weight * u32::from(*byte);
    }
    (sum, weighted)
}

/// Sixteen-bit factors, which processors multiply and add in pairs.
#[inline]
fn sums_of_group(group: &[u8; GROUP]) -> (u32, u32) {
    let (mut sum, mut weighted) = (0i32, 0i32);
    for (at, byte) in group.iter().enumerate() {
        sum += i32::from(*byte);
        weighted += i32::from(i16::from(*byte)) * i32::from((GROUP - at) as i16);
    }
    (sum as u32, weighted as u32)
}

fn join(a: u32, b: u32) -> u32 {
    a | b << 16
}

/// The formula as WAFL prints it: the checksum after byte `i` (1 is the first) of `n` was changed, from the checksum
/// `c` before.
pub fn replace_byte(c: u32, old: u8, new: u8, n: u32, i: u32) -> u32 {
    let difference = (i64::from(new) - i64::from(old)).rem_euclid(i64::from(MODULUS)) as u64;
    let a = (u64::from(c % 65_536) + difference) % u64::from(MODULUS);
    let b = (u64::from(c / 65_536) + u64::from(n + 1 - i) * difference) % u64::from(MODULUS);
    join(a as u32, b as u32)
}

/// What the Adler-32 of a frame absorbs when its bytes at `offset` change: the formula over all of them at once.
///
/// # Panics
/// If `old` and `new` differ in length or reach beyond the frame.
pub fn fragment(offset: usize, old: &[u8], new: &[u8]) -> u32 {
    assert_eq!(old.len(), new.len(), "old and new bytes differ in length");
    assert!(
        offset <= FRAME && new.len() <= FRAME - offset,
        "change reaches beyond its frame"
    );
    let (mut sum, mut weighted) = (0i64, 0i64);
    let mut weight = (FRAME - offset) as i64;
    for (old, new) in old.iter().zip(new) {
        let difference = i64::from(*new) - i64::from(*old);
        sum += difference;
        weighted += weight * difference;
        weight -= 1;
    }
    let reduced = |sum: i64| sum.rem_euclid(i64::from(MODULUS)) as u32;
    join(reduced(sum), reduced(weighted))
}

/// Two fragments in one, or a checksum with a fragment absorbed (WAFL's combine).
#[inline]
pub fn combine(first: u32, second: u32) -> u32 {
    let a = (first % 65_536 + second % 65_536) % MODULUS;
    let b = (first / 65_536 + second / 65_536) % MODULUS;
    join(a, b)
}

/// The fragments of one frame's checksum, one a processor, each in a cache line of its own.
pub struct Fragments<const CPUS: usize>([Fragment; CPUS]);

#[repr(align(64))]
struct Fragment(AtomicU32);

impl<const CPUS: usize> Default for Fragments<CPUS> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Fragment(AtomicU32::new(0))))
    }
}

impl<const CPUS: usize> Fragments<CPUS> {
    /// Absorbs a change on processor `cpu` (taken modulo the number of fragments). Threads that share a processor, or
    /// move between the question and the answer, lose nothing: the fragment is exchanged, not stored.
    pub fn absorb(&self, cpu: usize, fragment: u32) {
        let own = &self.0[cpu % CPUS].0;
        let mut before = own.load(Ordering::Relaxed);
        while let Err(now) =
            own.compare_exchange_weak(before, combine(before, fragment), Ordering::Relaxed, Ordering::Relaxed)
        {
            before = now;
        }
    }

    /// The checksum `base` with all fragments absorbed.
    pub fn combined(&self, base: u32) -> u32 {
        let all = self.0.iter().map(|fragment| fragment.0.load(Ordering::Acquire));
        all.fold(base, combine)
    }
}

/// The code `adler`: no parity, nothing is corrected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adler;

impl Code for Adler {
    #[inline]
    fn parity_len(self) -> usize {
        0
    }

    fn sum(self, data: &[u8; FRAME]) -> u64 {
        u64::from(of(data))
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        assert!(parity.is_empty(), "adler has no parity");
        self.sum(content.data())
    }

    fn fragment(self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        u64::from(fragment(offset, old, new))
    }

    #[inline]
    fn merge(self, sum: u64, fragment: u64) -> u64 {
        u64::from(combine(sum as u32, fragment as u32))
    }

    #[inline]
    fn fold(self, _offset: usize, _old: &[u8], _new: &[u8], _fold: impl FnMut(usize, u64)) {}

    fn fragment_word(self, index: usize, old: u64, new: u64) -> u64 {
        self.fragment(8 * index, &old.to_le_bytes(), &new.to_le_bytes())
    }

    #[inline]
    fn fold_word(self, _index: usize, _xor: u64, _fold: impl FnMut(usize, u64)) {}

    fn verify(self, data: &[u8; FRAME], _parity: &[u8], sum: u64) -> bool {
        self.sum(data) == sum
    }
}

#[cfg(test)]
mod tests;
