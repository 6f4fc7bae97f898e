//! The distinct states of a whole run: hashes of recovered trees with their data, attributes and times (decision 0200).

use super::step::StepKind;
use keepfs_store::{Guard, Protection};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Parts with a lock each.
const SHARDS: usize = 32;

/// Keys are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*b);
        }
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

type Set = HashSet<u64, BuildHasherDefault<Same>>;

/// What a state is counted for: each counts equal trees once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Count {
    /// The run.
    Run,
    /// Recoveries while a step of this kind was in flight.
    Kind(StepKind),
    /// Recoveries at this guard and this level of protection.
    At(Guard, Protection),
}

/// All trees seen.
pub struct States(Vec<Mutex<Set>>);

impl Default for States {
    fn default() -> States {
        States((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl States {
    /// Whether this tree was not counted there before.
    pub fn is_new(&self, count: Count, tree: u64) -> bool {
        let mut hasher = DefaultHasher::new();
        (count, tree).hash(&mut hasher);
        let key = hasher.finish();
        self.0[key as usize % SHARDS].lock().insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_trees_count_once_in_each_place() {
        let states = States::default();
        assert!(states.is_new(Count::Run, 7));
        assert!(!states.is_new(Count::Run, 7));
        assert!(states.is_new(Count::Kind(StepKind::Idle), 7));
        assert!(!states.is_new(Count::Kind(StepKind::Idle), 7));
        assert!(states.is_new(Count::Run, 8));
    }
}
