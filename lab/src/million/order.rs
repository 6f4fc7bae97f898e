//! Every number below n once, in an order that looks random, without a table.

/// The numbers `0..n` in a fixed shuffled order.
pub struct Shuffled {
    n: u64,
    bits: u32,
    at: u64,
}

impl Shuffled {
    /// The order of `n` numbers.
    pub fn new(n: u64) -> Shuffled {
        Shuffled {
            n,
            bits: (64 - n.max(2).saturating_sub(1).leading_zeros()).max(2),
            at: 0,
        }
    }

    /// Each step can be undone, so it maps the numbers of `bits` bits one to one.
    fn mix(&self, number: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let mut x = number;
        for odd in [0x9E37_79B9_7F4A_7C15_u64, 0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
            x = x.wrapping_mul(odd) & mask;
            x ^= x >> (self.bits / 2);
        }
        x
    }
}

impl Iterator for Shuffled {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        while self.at < 1 << self.bits {
            let x = self.mix(self.at);
            self.at += 1;
            if x < self.n {
                return Some(x);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
