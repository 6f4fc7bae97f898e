//! Crash enumeration for the flash home (BARS R-3).
//!
//! A [`workload`] runs on a volume over a recording device ([`history`]); every state that a power cut may leave at
//! every position of the log is recovered in process and judged ([`judge`]) by the promise C-1: what is recovered is
//! what some prefix of the operations made, not less than what was acknowledged. Then the whole-tree walk of `audit`,
//! a crash inside the recovery, and the deletion of everything.

pub mod campaign;
pub mod death;
pub mod fence;
pub mod history;
pub mod judge;
pub mod killed;
pub mod kinds;
pub mod memo;
pub mod pause;
#[cfg(feature = "planted")]
pub mod planted;
pub mod schedule;
pub mod seed;
pub mod setting;
pub mod states;
pub mod step;
pub mod sweep;
pub mod tally;
pub mod trace;
pub mod workload;

pub use campaign::{Campaign, Goal, Limits};
pub use seed::Seed;
pub use setting::Setting;
pub use step::Step;
pub use tally::Tally;
