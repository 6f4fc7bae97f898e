//! A frame as 64 rows of 64 bytes, and the row parities P and Q (S-15.6, S-15.7).

use crate::FRAME;
use crate::gf256;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;

/// Bytes of a row.
pub(crate) const ROW: usize = 64;
/// Rows of a frame.
pub(crate) const ROWS: usize = FRAME / ROW;
/// Words of a row.
pub(crate) const ROW_WORDS: usize = ROW / 8;

/// The bytes of a row.
pub(crate) type Row = [u8; ROW];

/// The rows of a frame.
pub(crate) fn of(data: &[u8; FRAME]) -> &[Row; ROWS] {
    let (rows, _) = data.as_chunks::<ROW>();
    rows.try_into().expect("a frame is 64 rows")
}

/// P: the XOR of all rows.
pub(crate) fn p(rows: &[Row; ROWS]) -> Row {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let simd::Level::Avx512(isa) = simd::level() {
        return isa.row_parity(rows);
    }
    p_portable(rows)
}

pub(crate) fn p_portable(rows: &[Row; ROWS]) -> Row {
    let mut parity = [0; ROW];
    for row in rows {
        for (sum, byte) in parity.iter_mut().zip(row) {
            *sum ^= byte;
        }
    }
    parity
}

/// P and Q.
pub(crate) fn pq(rows: &[Row; ROWS]) -> (Row, Row) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let simd::Level::Avx512(isa) = simd::level() {
        return isa.row_parities(rows);
    }
    pq_portable(rows)
}

pub(crate) fn pq_portable(rows: &[Row; ROWS]) -> (Row, Row) {
    let (mut p, mut q) = ([0u64; ROW_WORDS], [0u64; ROW_WORDS]);
    for row in rows.iter().rev() {
        let (words, _) = row.as_chunks::<8>();
        for ((p, q), word) in p.iter_mut().zip(&mut q).zip(words) {
            let word = u64::from_le_bytes(*word);
            *p ^= word;
            *q = gf256::times_3(*q) ^ word;
        }
    }
    (bytes(p), bytes(q))
}

fn bytes(words: [u64; ROW_WORDS]) -> Row {
    let mut row = [0; ROW];
    let (chunks, _) = row.as_chunks_mut::<8>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_le_bytes();
    }
    row
}

/// `a` XOR `b`, given as slices of a row's length.
pub(crate) fn xor(a: &Row, b: &[u8]) -> Row {
    core::array::from_fn(|at| a[at] ^ b[at])
}

/// Each byte of `row` times `c` in GF(2^8).
pub(crate) fn times(c: u8, row: &Row) -> Row {
    let (words, _) = row.as_chunks::<8>();
    bytes(core::array::from_fn(|at| {
        gf256::times_portable(c, u64::from_le_bytes(words[at]))
    }))
}

#[cfg(test)]
mod tests;
