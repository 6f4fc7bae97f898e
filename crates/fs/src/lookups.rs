//! Lookup counts: how often each inode number was handed out and not yet forgotten.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Number of shards.
const SHARDS: u64 = 64;

/// Spreads inode numbers, which nobody outside chooses.
#[derive(Default)]
struct InoHasher(u64);

impl Hasher for InoHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Counts = HashMap<u64, u64, BuildHasherDefault<InoHasher>>;

/// The counts of a volume. They belong to the mount, not to the pool, so they start empty.
pub(crate) struct Lookups {
    shards: Box<[Mutex<Counts>]>,
}

impl Lookups {
    /// No inode is looked up.
    pub fn new() -> Lookups {
        Lookups {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, ino: u64) -> &Mutex<Counts> {
        &self.shards[(ino % SHARDS) as usize]
    }

    /// One more lookup of `ino`.
    pub fn raise(&self, ino: u64) {
        let mut shard = self.shard(ino).lock();
        let count = shard.entry(ino).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// `by` lookups less; `true` if none is left. Unknown numbers are ignored.
    pub fn lower(&self, ino: u64, by: u64) -> bool {
        let mut shard = self.shard(ino).lock();
        let Some(count) = shard.get_mut(&ino) else { return false };
        *count = count.saturating_sub(by);
        let gone = *count == 0;
        if gone {
            shard.remove(&ino);
        }
        gone
    }

    /// The mount ends: nobody holds anything.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| shard.lock().clear());
    }

    /// Whether somebody holds `ino`.
    pub fn held(&self, ino: u64) -> bool {
        self.shard(ino).lock().contains_key(&ino)
    }
}
