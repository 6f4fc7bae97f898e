//! Four AES rounds as a keyed function of 16 bytes, for the multiset digest (S-15.12): the AES instruction where there is
//! one, tables elsewhere, with equal results.
//!
//! Not encryption: the tables' timing depends on the input, and nothing here is secret beyond the life of a mount.

use crate::gf256::{INVERSES, product};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;

/// 16 bytes as two little-endian halves. (A pair travels in registers; an array would go through memory in halves and be
/// read as a whole, which stalls.)
pub(crate) type Block = (u64, u64);

/// The first whitening and the keys of four rounds.
pub(crate) type Schedule = [Block; 5];

/// Column of a round: byte 0 of the column goes through SubBytes and MixColumns; for bytes 1 to 3 the entry is turned.
static COLUMNS: [u32; 256] = columns();

/// F(block).
#[inline]
pub(crate) fn rounds(schedule: &Schedule, block: Block) -> Block {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(isa) = simd::level().clmul() {
        return isa.aes_rounds(schedule, block);
    }
    rounds_portable(schedule, block)
}

/// F(second) - F(first), half by half.
#[inline]
pub(crate) fn difference(schedule: &Schedule, first: Block, second: Block) -> Block {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if let Some(isa) = simd::level().clmul() {
        return isa.aes_difference(schedule, first, second);
    }
    difference_portable(schedule, first, second)
}

pub(crate) fn difference_portable(schedule: &Schedule, first: Block, second: Block) -> Block {
    let (first, second) = (rounds_portable(schedule, first), rounds_portable(schedule, second));
    (second.0.wrapping_sub(first.0), second.1.wrapping_sub(first.1))
}

pub(crate) fn rounds_portable(schedule: &Schedule, block: Block) -> Block {
    let (whitening, keys) = schedule.split_first().expect("five keys");
    let mut state = (block.0 ^ whitening.0, block.1 ^ whitening.1);
    for key in keys {
        state = round(state, *key);
    }
    state
}

/// SubBytes, ShiftRows, MixColumns, AddRoundKey (FIPS 197, section 5.1): what AESENC does.
fn round(state: Block, key: Block) -> Block {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&state.0.to_le_bytes());
    bytes[8..].copy_from_slice(&state.1.to_le_bytes());
    let column = |column: usize| {
        (0..4).fold(0, |sum: u32, row| {
            let byte = bytes[(4 * (column + row) + row) % 16];
            sum ^ COLUMNS[byte as usize].rotate_left(8 * row as u32)
        })
    };
    let half = |first: usize| u64::from(column(first)) | u64::from(column(first + 1)) << 32;
    (half(0) ^ key.0, half(2) ^ key.1)
}

const fn columns() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let s = substitute(byte as u8);
        table[byte] = u32::from_le_bytes([product(2, s), s, s, product(3, s)]);
        byte += 1;
    }
    table
}

/// SubBytes of one byte.
const fn substitute(byte: u8) -> u8 {
    let i = INVERSES[byte as usize];
    i ^ i.rotate_left(1) ^ i.rotate_left(2) ^ i.rotate_left(3) ^ i.rotate_left(4) ^ 0x63
}

#[cfg(test)]
mod tests;
