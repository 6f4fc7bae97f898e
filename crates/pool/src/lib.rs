//! What a pool is beside its metadata: what its superblock says, its device, who has it, what is told and kept of what happened, and
//! what can go wrong with it (SPEC sections 2 and 18).
//!
//! Read [`pool`] (the superblock), [`switch`] (the device), [`mmp`] (of several machines one has it), [`events`] (what is told) and
//! [`history`] (what is kept of that). Nothing here knows of frames, transactions or a home: those stand on it.

pub mod code;
pub mod ending;
mod error;
pub mod events;
mod ground;
pub mod history;
pub mod log;
pub mod mmp;
pub mod options;
pub mod pool;
pub mod stats;
pub mod switch;
mod switched;
pub mod worker;

pub use error::{BadData, Error, Unbalanced, may_be_fenced};
pub use ground::Ground;
pub use options::StoreOptions;
pub use pool::{
    COUNT_MAX, Flipped, FormatOptions, HomeKind, LOG_PAGES, PROTECT_DEFAULT, Pool, Settings, Taken, choose,
    entry_damage, first_superblock, fixed_runs, may_count, may_write, protect, superblock_bytes, superblocks, take,
    whole_superblocks,
};
pub use switched::{forget_whole, grow, growth, renew_id};
