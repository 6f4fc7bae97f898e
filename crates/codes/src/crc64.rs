//! CRC-64/NVME (S-1.2) of frames, its position-dependent deltas, and seeded sums for log chains.
//!
//! Why this polynomial: it is primitive and has Hamming distance >= 5 on a frame with its checksum,
//! so up to 4 flipped bits, any burst of up to 64 bits, and every swap of two fields of up to 64 bits
//! are always detected; anything else passes with probability 2^-64. Because the code is linear,
//! `full(new) == full(old) ^ delta(offset, old_bytes, new_bytes)`; deltas of racing writers merge by
//! XOR (`fetch_xor`).

use crate::FRAME;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;
use crate::tables::{NVME, slices};

/// 8-byte words of a frame.
pub(crate) const WORDS: usize = FRAME / 8;

/// Words of padding behind [`PLACES`], so that a 64-byte vector can be loaded at any index.
pub(crate) const PADDING: usize = 8;

/// `PLACES[i]` is x^(64 (512 - i) - 1): what word `i` of a frame is multiplied by. The missing power
/// of x comes from the reflected carry-less product. The padding beyond a frame is zero.
pub(crate) static PLACES: [u64; WORDS + PADDING] = places();

static SLICES: [[u64; 256]; 8] = slices(NVME);

/// `NIBBLES[n]` is the reduction of a register whose low 4 bits `n` are shifted out.
static NIBBLES: [u64; 16] = nibbles();

/// The standard CRC-64/NVME of `data`, of any length (initial value and final XOR all ones).
pub fn full(data: &[u8]) -> u64 {
    !update(!0, data)
}

/// CRC-64/NVME over the 8 little-endian bytes of `seed` followed by `data`: a record of a log chain
/// is bound to its generation or predecessor by its seed.
pub fn seeded(seed: u64, data: &[u8]) -> u64 {
    !update(word(!seed), data)
}

/// The CRC-64/NVME of some bytes whose CRC is `crc`, and `data` behind them.
pub fn more(crc: u64, data: &[u8]) -> u64 {
    !update(!crc, data)
}

/// [`more`] of two little-endian words.
#[inline]
pub fn two_more(crc: u64, first: u64, second: u64) -> u64 {
    !delta_words(WORDS - 2, !crc ^ first, second)
}

/// The CRC of a frame of zero bytes.
pub const fn of_zeros() -> u64 {
    const ZEROS: u64 = {
        let mut state = u64::MAX;
        let mut bit = 0;
        while bit < FRAME * 8 {
            state = NVME.step(state);
            bit += 1;
        }
        !state
    };
    ZEROS
}

/// What the bytes from word `first` on add to the CRC of a frame that is zero there: their delta from zeros.
#[inline]
pub(crate) fn added<const N: usize>(first: usize, bytes: &[u8; N]) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let (simd::Level::Avx512(isa), (blocks, [])) = (simd::level(), bytes.as_chunks()) {
        return isa.added64(&PLACES, first, blocks);
    }
    let state = update(0, bytes);
    match first + N / 8 {
        WORDS => state,
        behind => times_place(state, behind),
    }
}

/// What to XOR into the CRC of a frame when its bytes at `offset` change from `old` to `new` (S-15.2).
///
/// # Panics
/// If `old` and `new` differ in length or reach beyond the frame: a caller's error, not input.
#[inline]
pub fn delta(offset: usize, old: &[u8], new: &[u8]) -> u64 {
    assert_eq!(old.len(), new.len(), "old and new bytes differ in length");
    assert!(
        offset <= FRAME && new.len() <= FRAME - offset,
        "change reaches beyond its frame"
    );
    if let (0, Ok(old), Ok(new)) = (offset % 8, old.try_into(), new.try_into()) {
        let xor = u64::from_le_bytes(old) ^ u64::from_le_bytes(new);
        return delta_word(offset / 8, xor);
    }
    if let (0, ([a, b], []), ([c, d], [])) = (offset % 8, old.as_chunks(), new.as_chunks()) {
        let xor = |old: &[u8; 8], new: &[u8; 8]| u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new);
        return delta_words(offset / 8, xor(a, c), xor(b, d));
    }
    delta_anywhere(offset, old, new)
}

/// [`delta`] of any change within the frame.
fn delta_anywhere(offset: usize, old: &[u8], new: &[u8]) -> u64 {
    match Head::split(offset, old, new) {
        None => delta_aligned(offset / 8, old, new),
        Some(head) => {
            let rest = delta_aligned(head.index + 1, &old[head.len..], &new[head.len..]);
            delta_word(head.index, head.xor) ^ rest
        }
    }
}

/// What to XOR into the CRC of a frame when its little-endian word `index` (0..512) changes by `xor`
/// (old XOR new).
///
/// # Panics
/// If `index` is not below 512.
#[inline]
pub fn delta_word(index: usize, xor: u64) -> u64 {
    assert!(index < WORDS, "word index beyond its frame");
    times_place(xor, index)
}

/// As [`delta_word`], for words `index` and `index + 1` (a page entry is two words).
///
/// # Panics
/// If `index` is not below 511.
#[inline]
pub fn delta_words(index: usize, first: u64, second: u64) -> u64 {
    assert!(index < WORDS - 1, "word index beyond its frame");
    let (here, next) = (PLACES[index], PLACES[index + 1]);
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(clmul) = simd::level().clmul() {
        return clmul.multiply_two((first, here), (second, next));
    }
    multiply(first, here) ^ multiply(second, next)
}

/// `a * b * x mod P`.
#[inline]
pub(crate) fn product(a: u64, b: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(clmul) = simd::level().clmul() {
        return clmul.multiply(a, b);
    }
    multiply(a, b)
}

/// `delta * x^(64 (512 - index))`: a delta moved towards the frame's beginning.
#[inline]
fn times_place(delta: u64, index: usize) -> u64 {
    product(delta, PLACES[index])
}

/// The changed bytes before the first word boundary, moved to their place in their word.
pub(crate) struct Head {
    pub index: usize,
    pub xor: u64,
    pub len: usize,
}

impl Head {
    pub fn split(offset: usize, old: &[u8], new: &[u8]) -> Option<Self> {
        let within = offset % 8;
        if within == 0 {
            return None;
        }
        let len = new.len().min(8 - within);
        let xor = xor_of(&old[..len], &new[..len]) << (8 * within);
        Some(Self {
            index: offset / 8,
            xor,
            len,
        })
    }
}

/// The XOR of up to 8 bytes as a little-endian word, zero-extended.
#[inline]
fn xor_of(old: &[u8], new: &[u8]) -> u64 {
    word_of(old) ^ word_of(new)
}

/// Up to 8 bytes as a little-endian word, zero-extended; by loads that overlap, without a loop.
#[inline]
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    match *bytes {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, ..] => u64::from(u32::from_le_bytes([a, b, c, 0])),
    }
}

/// The delta of bytes that begin at word `first`.
fn delta_aligned(first: usize, old: &[u8], new: &[u8]) -> u64 {
    if new.is_empty() {
        return 0;
    }
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(delta) = delta_wide(&PLACES, first, old, new) {
        return delta;
    }
    delta_portable(first, old, new)
}

/// The sum of each word's change times its place, if the machine multiplies without carries.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline]
pub(crate) fn delta_wide(places: &[u64; WORDS + PADDING], first: usize, old: &[u8], new: &[u8]) -> Option<u64> {
    match simd::level() {
        simd::Level::Avx512(isa) if new.len() >= 64 => Some(isa.delta64(places, first, old, new)),
        simd::Level::Avx512(isa) => Some(isa.narrow().delta64(places, first, old, new)),
        simd::Level::Clmul(isa) => Some(isa.delta64(places, first, old, new)),
        simd::Level::Portable => None,
    }
}

/// Without carry-less multiplication: a table sum of the differences, moved to its place once.
fn delta_portable(first: usize, old: &[u8], new: &[u8]) -> u64 {
    let mut state = 0;
    let mut after = first;
    for (old, new) in old.chunks(8).zip(new.chunks(8)) {
        state = word_portable(state ^ xor_of(old, new));
        after += 1;
    }
    if after == WORDS {
        return state;
    }
    multiply(state, PLACES[after])
}

/// Advances the register `state` over `data`.
fn update(state: u64, data: &[u8]) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    {
        let (blocks, tail) = data.as_chunks::<64>();
        let level = simd::level();
        let Some(narrow) = level.clmul() else {
            return update_portable(state, data);
        };
        let state = match level {
            _ if blocks.is_empty() => state,
            simd::Level::Avx512(isa) if blocks.len() >= 4 => isa.crc64(state, blocks),
            _ => narrow.crc64(state, blocks),
        };
        narrow.crc64_short(state, tail)
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
    update_portable(state, data)
}

/// Eight bytes a step by tables.
fn update_portable(mut state: u64, data: &[u8]) -> u64 {
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        state = word_portable(state ^ u64::from_le_bytes(*word));
    }
    for &byte in tail {
        state = (state >> 8) ^ SLICES[0][((state as u8) ^ byte) as usize];
    }
    state
}

/// `word * x^64 mod P`.
#[inline]
fn word(word: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(clmul) = simd::level().clmul() {
        return clmul.multiply(word, PLACES[WORDS - 1]);
    }
    word_portable(word)
}

/// `word * x^64 mod P` by tables.
fn word_portable(word: u64) -> u64 {
    let bytes = word.to_le_bytes();
    let mut state = 0;
    for (place, byte) in bytes.into_iter().enumerate() {
        state ^= SLICES[7 - place][byte as usize];
    }
    state
}

/// `a * b * x mod P` (the product the carry-less multiplier gives), 4 bits a step.
fn multiply(a: u64, b: u64) -> u64 {
    let multiples = multiples(b);
    let mut product = 0u64;
    for step in 0..16 {
        let nibble = (a >> (4 * step)) & 15;
        product = (product >> 4) ^ NIBBLES[(product & 15) as usize];
        product ^= multiples[nibble as usize];
    }
    NVME.step(product)
}

/// `n * value` for each reflected 4-bit `n` (bit 3 is x^0).
fn multiples(value: u64) -> [u64; 16] {
    let mut table = [0u64; 16];
    table[8] = value;
    table[4] = NVME.step(table[8]);
    table[2] = NVME.step(table[4]);
    table[1] = NVME.step(table[2]);
    for n in 1..16usize {
        let low = n & n.wrapping_neg();
        if n != low {
            table[n] = table[low] ^ table[n ^ low];
        }
    }
    table
}

const fn nibbles() -> [u64; 16] {
    let mut table = [0u64; 16];
    let mut n = 0;
    while n < 16 {
        let mut value = n as u64;
        let mut bit = 0;
        while bit < 4 {
            value = NVME.step(value);
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
}

const fn places() -> [u64; WORDS + PADDING] {
    let mut table = [0u64; WORDS + PADDING];
    let mut value = NVME.power(63);
    let mut index = WORDS;
    while index > 0 {
        index -= 1;
        table[index] = value;
        let mut bit = 0;
        while bit < 64 {
            value = NVME.step(value);
            bit += 1;
        }
    }
    table
}

#[cfg(test)]
mod tests;
