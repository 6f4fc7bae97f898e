//! Sets of numbers, sparse, in blocks laid out as bitmap metablocks are (S-7.5), so that both compare byte by byte.

use keepfs_format::bitmap::BITS;
use std::collections::BTreeMap;

/// Bytes of bits in a bitmap metablock.
pub(crate) const BYTES: usize = (BITS / 8) as usize;

/// The bits of one bitmap metablock.
pub(crate) type Bits = [u8; BYTES];

/// Bits of a block without any.
pub(crate) static CLEAR: Bits = [0; BYTES];

/// A set of numbers. Memory is taken by the block of 32512 numbers.
#[derive(Debug, Default)]
pub(crate) struct Set {
    pub blocks: BTreeMap<u64, Box<Bits>>,
}

impl Set {
    fn block(&mut self, index: u64) -> &mut Bits {
        self.blocks.entry(index).or_insert_with(|| Box::new(CLEAR))
    }

    /// Adds `number`; false if it was there.
    pub fn add(&mut self, number: u64) -> bool {
        let within = number % BITS;
        let byte = &mut self.block(number / BITS)[(within / 8) as usize];
        let mask = 1u8 << (within % 8);
        let fresh = *byte & mask == 0;
        *byte |= mask;
        fresh
    }

    /// Adds `count` numbers from `first` on.
    pub fn add_run(&mut self, first: u64, count: u64) {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let stop = end.min((at / BITS + 1) * BITS);
            fill(self.block(at / BITS), at % BITS, stop - at);
            at = stop;
        }
    }

    /// Takes `number` out.
    pub fn remove(&mut self, number: u64) {
        if let Some(bits) = self.blocks.get_mut(&(number / BITS)) {
            let within = number % BITS;
            bits[(within / 8) as usize] &= !(1 << (within % 8));
        }
    }

    pub fn has(&self, number: u64) -> bool {
        self.blocks
            .get(&(number / BITS))
            .is_some_and(|b| test(&b[..], number % BITS))
    }

    /// The bits of block `index`.
    pub fn bits(&self, index: u64) -> &Bits {
        self.blocks.get(&index).map_or(&CLEAR, |b| b)
    }

    /// All numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.blocks
            .iter()
            .flat_map(|(index, bits)| ones(&bits[..]).map(move |n| index * BITS + n))
    }
}

/// Whether bit `within` is set.
pub(crate) fn test(bits: &[u8], within: u64) -> bool {
    bits[(within / 8) as usize] >> (within % 8) & 1 == 1
}

fn fill(bits: &mut Bits, first: u64, count: u64) {
    let (mut at, end) = (first, first + count);
    while at < end && at % 8 != 0 {
        bits[(at / 8) as usize] |= 1 << (at % 8);
        at += 1;
    }
    while at + 8 <= end {
        bits[(at / 8) as usize] = 0xff;
        at += 8;
    }
    while at < end {
        bits[(at / 8) as usize] |= 1 << (at % 8);
        at += 1;
    }
}

/// The numbers of the set bits, ascending.
pub(crate) fn ones(bits: &[u8]) -> impl Iterator<Item = u64> {
    let bytes = bits.iter().enumerate().filter(|(_, byte)| **byte != 0);
    bytes.flat_map(|(at, byte)| {
        (0..8)
            .filter(move |bit| byte >> bit & 1 == 1)
            .map(move |bit| at as u64 * 8 + bit)
    })
}

/// How many bits are set.
pub(crate) fn count(bits: &[u8]) -> u64 {
    let (words, rest) = bits.as_chunks::<8>();
    let words: u64 = words
        .iter()
        .map(|w| u64::from(u64::from_le_bytes(*w).count_ones()))
        .sum();
    words + rest.iter().map(|b| u64::from(b.count_ones())).sum::<u64>()
}

/// The bits that are in one and not in the other.
pub(crate) fn minus(one: &[u8], other: &[u8]) -> Vec<u8> {
    one.iter().zip(other).map(|(a, b)| a & !b).collect()
}

#[cfg(test)]
mod tests;
