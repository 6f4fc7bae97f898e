//! How a pool is opened.

use crate::mmp::{Claimant, Who};
use crate::pool::HomeKind;
use keepfs_codes::Protection;
use keepfs_digest::Equations;
use keepfs_memory::Guard;

/// Rungs that are tried. All of them, but for tests of one alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rungs(u8);

impl Rungs {
    /// None: what does not verify ends writing, or is fenced.
    pub const NONE: Rungs = Rungs(0);
    /// The code's repair.
    pub const CODE: Rungs = Rungs(1);
    /// The witness.
    pub const LOG: Rungs = Rungs(2);
    /// A copy on the device.
    pub const DEVICE: Rungs = Rungs(4);
    /// All.
    pub const ALL: Rungs = Rungs(7);

    /// These and others.
    #[must_use]
    pub const fn with(self, other: Rungs) -> Rungs {
        Rungs(self.0 | other.0)
    }

    /// Whether those of `other` are among them.
    pub const fn has(self, other: Rungs) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where the pool keeps its metadata.
    pub home: HomeKind,
    /// Bytes of the arena, at least 16 MiB unless `tiny_arena`.
    pub arena_bytes: usize,
    /// Allow an arena just large enough for the largest transaction (simulations).
    pub tiny_arena: bool,
    /// Guard level.
    pub guard: Guard,
    /// Another code for the frames than the pool's own (S-2.6), for comparison; the pool keeps its own.
    pub protect: Option<Protection>,
    /// Seal the mappings (servers; never given back).
    pub seal: bool,
    /// Nothing is written, the log is applied in memory only.
    pub read_only: bool,
    /// A log that is damaged before groups that were flushed is cut there (S-9.16); else such a pool is refused for writing.
    pub cut_log: bool,
    /// Run checkpoints in a thread of their own; otherwise whoever needs one runs it.
    pub background: bool,
    /// A checkpoint starts when this much of the log is left, percent.
    pub log_free_percent: u32,
    /// Keep the descriptors of memory that a restarted server adopts (S-14.8).
    pub lasting: bool,
    /// Keep the operation log and the state table (SPEC section 12); off for comparison.
    pub oplog: bool,
    /// Equations that every transaction must satisfy to commit (SPEC section 17).
    pub audit: Equations,
    /// Copy metablocks before they change and compare them at the seal, as Recon does, for comparison.
    #[cfg(feature = "measure")]
    pub recon: bool,
    /// Everything is made durable before each transaction begins, so that a crash may fall between any two
    /// (simulations).
    pub sync_each: bool,
    /// Tell the device after each checkpoint which pages became free.
    pub discard: bool,
    /// Groups have the changed parts of metablocks only. Off: they take as many log pages as the whole metablocks would,
    /// for comparison (ReconFS-EC, ReconFS section 5.2.3; decision 0421).
    #[cfg(feature = "comparison")]
    pub compact: bool,
    /// Who claims the pool, where several machines reach it (S-2.21).
    pub who: Who,
    /// Tells, while memory is made, whether who asked for the pool has gone (S-16.29).
    pub given_up: Option<fn() -> bool>,
    /// What is tried when a frame does not verify (S-15.14, S-15.16); fewer than all in tests of one rung.
    pub rungs: Rungs,
}

impl StoreOptions {
    /// How the pool is claimed with them.
    pub fn claimant(&self) -> Claimant<'_> {
        Claimant {
            who: &self.who,
            background: self.background,
            read_only: self.read_only,
        }
    }
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            home: HomeKind::default(),
            arena_bytes: 64 << 20,
            tiny_arena: false,
            guard: Guard::Alias,
            protect: None,
            seal: false,
            read_only: false,
            cut_log: false,
            background: true,
            log_free_percent: 5,
            oplog: true,
            audit: Equations::ALL,
            #[cfg(feature = "measure")]
            recon: false,
            sync_each: false,
            lasting: false,
            discard: false,
            #[cfg(feature = "comparison")]
            compact: true,
            who: Who::default(),
            given_up: None,
            rungs: Rungs::ALL,
        }
    }
}
