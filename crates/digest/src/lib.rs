//! Keepfs digest: audits of transactions: whether what a transaction changed is consistent in itself, by digests (SPEC section 17; WAFL
//! 2017, section 5).
//!
//! [`Auditor::judge`] looks at the bytes that changed, as SPEC.md lays them out, and at what was told besides: log records,
//! operations, counts in memory. Each [`Equation`] has two sides that are fed from different places of the engine. Both go
//! into one multiset digest, one side in, the other out: it is empty if they are equal. Only if one is not, the items
//! themselves are collected and sorted, and the [`Imbalance`] names those that one side has alone. Local rules, which one
//! structure must obey whatever others say, go the same way ([`Equations::LOCAL`]).

mod bits;
mod dirs;
mod dying;
mod equation;
mod exact;
mod geometry;
mod inodes;
mod input;
mod leaf;
mod local;
mod nodes;
mod ops;
mod records;
mod sink;
mod split;
mod walk;

pub use equation::{Equation, Equations};
pub use exact::{Imbalance, Item};
pub use geometry::Geometry;
pub use input::{Block, Change, Fate, Nature, Transaction};
pub use keepfs_codes::digest::Key;

use exact::Exact;
use sink::Sums;
use walk::Walk;

/// What the auditor keeps for the life of a mount.
pub struct Auditor {
    key: Key,
    /// Key of the name hash (S-6.3).
    name_seed: [u64; 2],
    geometry: Geometry,
    equations: Equations,
}

impl Auditor {
    /// An auditor of these equations. `key` is random.
    pub fn new(key: Key, name_seed: [u64; 2], geometry: Geometry, equations: Equations) -> Auditor {
        Auditor {
            key,
            name_seed,
            geometry,
            equations,
        }
    }

    /// The equations that it looks at.
    pub fn equations(&self) -> Equations {
        self.equations
    }

    /// Judges a transaction: empty if all of `among` that are switched on balance.
    pub fn judge(&self, txn: &impl Transaction, among: Equations) -> Vec<Imbalance> {
        let equations = self.equations.and(among);
        if equations.is_empty() {
            return Vec::new();
        }
        let pool = (self.name_seed, &self.geometry, among == Equations::OF_CHECKPOINTS);
        let sums = Walk::new(txn, pool, Sums::new(&self.key, equations)).go();
        let unbalanced = sums.unbalanced();
        if unbalanced.is_empty() {
            return Vec::new();
        }
        Walk::new(txn, pool, Exact::new(unbalanced)).go().imbalances()
    }
}

#[cfg(test)]
mod tests;
