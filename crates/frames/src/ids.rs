//! Maps that are keyed by metablock id.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// Hashes a metablock id: one multiplication; ids are already spread by their low bits.
#[derive(Default, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 29;
    }
}

/// A map keyed by metablock id or another number.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
