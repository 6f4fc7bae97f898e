//! A frame as 64 lines of 64 bytes: the line parities P and Q (S-15.6, S-15.7) and sums of whole lines.

use crate::FRAME;
use crate::crc64;
use crate::gf256;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;
use crate::tables::NVME;

/// Bytes of a line.
pub(crate) const LINE: usize = 64;
/// Lines of a frame.
pub(crate) const LINES: usize = FRAME / LINE;
/// Words of a line.
pub(crate) const LINE_WORDS: usize = LINE / 8;

/// The bytes of a line.
pub(crate) type Line = [u8; LINE];

/// The lines of a frame.
pub(crate) fn of(data: &[u8; FRAME]) -> &[Line; LINES] {
    let (lines, _) = data.as_chunks::<LINE>();
    lines.try_into().expect("a frame is 64 lines")
}

/// P: the XOR of all lines.
pub(crate) fn p(lines: &[Line; LINES]) -> Line {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let simd::Level::Avx512(isa) = simd::level() {
        return isa.line_parity(lines);
    }
    p_portable(lines)
}

pub(crate) fn p_portable(lines: &[Line; LINES]) -> Line {
    let mut parity = [0; LINE];
    for line in lines {
        for (sum, byte) in parity.iter_mut().zip(line) {
            *sum ^= byte;
        }
    }
    parity
}

/// P and Q.
pub(crate) fn pq(lines: &[Line; LINES]) -> (Line, Line) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let simd::Level::Avx512(isa) = simd::level() {
        return isa.line_parities(lines);
    }
    pq_portable(lines)
}

pub(crate) fn pq_portable(lines: &[Line; LINES]) -> (Line, Line) {
    let (mut p, mut q) = ([0u64; LINE_WORDS], [0u64; LINE_WORDS]);
    for line in lines.iter().rev() {
        let (words, _) = line.as_chunks::<8>();
        for ((p, q), word) in p.iter_mut().zip(&mut q).zip(words) {
            let word = u64::from_le_bytes(*word);
            *p ^= word;
            *q = gf256::times_3(*q) ^ word;
        }
    }
    (bytes(p), bytes(q))
}

fn bytes(words: [u64; LINE_WORDS]) -> Line {
    let mut line = [0; LINE];
    let (chunks, _) = line.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    line
}

/// `a` XOR `b`, given as slices of a line's length.
pub(crate) fn xor(a: &Line, b: &[u8]) -> Line {
    core::array::from_fn(|at| a[at] ^ b[at])
}

/// Each byte of `line` times `c` in GF(2^8).
pub(crate) fn times(c: u8, line: &Line) -> Line {
    let (words, _) = line.as_chunks::<8>();
    bytes(core::array::from_fn(|at| {
        gf256::times_portable(c, u64::from_le_bytes(words[at]))
    }))
}

/// The CRC-64 delta of a frame whose last line changes by `xor`.
pub(crate) fn delta_of_last(xor: &Line) -> u64 {
    crc64::delta(FRAME - LINE, &[0; LINE], xor)
}

/// A delta moved `lines` (1..=64) lines towards the beginning of the frame.
pub(crate) fn moved_up(delta: u64, lines: usize) -> u64 {
    crc64::times_place(delta, FRAME / 8 - lines * LINE_WORDS)
}

/// `moved[j]` is the delta that, as one of the last line, is `delta` as one of line j: so a list decoder compares with
/// all lines at once instead of moving every candidate.
pub(crate) fn moved_down(delta: u64) -> [u64; LINES] {
    const BACK: u64 = NVME.negative_power(LINE as u64 * 8 + 1);
    let mut moved = [delta; LINES];
    for line in (0..LINES - 1).rev() {
        moved[line] = crc64::product(moved[line + 1], BACK);
    }
    moved
}

#[cfg(test)]
mod tests;
