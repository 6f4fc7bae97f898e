//! Lookup counts: how often each inode number was handed out and not yet forgotten.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Number of shards.
const SHARDS: u64 = 64;

/// The counts of a volume. They belong to the mount, not to the pool, so they start empty.
pub(crate) struct Lookups {
    shards: Box<[Mutex<HashMap<u64, u64>>]>,
}

impl Lookups {
    /// No inode is looked up.
    pub fn new() -> Lookups {
        Lookups {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, ino: u64) -> &Mutex<HashMap<u64, u64>> {
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
