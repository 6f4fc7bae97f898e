//! CRC-32C (Castagnoli) of data pages.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd;
use crate::tables::{CASTAGNOLI, slices};

/// Entries of the 64-bit form, cut to the 32 bits a CRC-32C uses.
static SLICES: [[u32; 256]; 8] = {
    let wide = slices(CASTAGNOLI);
    let mut table = [[0u32; 256]; 8];
    let mut k = 0;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            table[k][byte] = (wide[k][byte] >> 32) as u32;
            byte += 1;
        }
        k += 1;
    }
    table
};

/// The standard CRC-32C of `data`, of any length (initial value and final XOR all ones).
pub fn of(data: &[u8]) -> u32 {
    !update(!0, data)
}

/// Advances the register `state` over `data`.
fn update(state: u32, data: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    match simd::level() {
        simd::Level::Avx512(isa) => return isa.crc32c(state, data),
        simd::Level::Clmul(isa) => return isa.crc32c(state, data),
        simd::Level::Portable => {}
    }
    update_portable(state, data)
}

/// Eight bytes a step by tables.
fn update_portable(mut state: u32, data: &[u8]) -> u32 {
    let (words, tail) = data.as_chunks::<8>();
    for word in words {
        let bytes = (u64::from_le_bytes(*word) ^ u64::from(state)).to_le_bytes();
        state = 0;
        for (place, byte) in bytes.into_iter().enumerate() {
            state ^= SLICES[7 - place][byte as usize];
        }
    }
    for &byte in tail {
        state = (state >> 8) ^ SLICES[0][((state as u8) ^ byte) as usize];
    }
    state
}

#[cfg(test)]
mod tests;
