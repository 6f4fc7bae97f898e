//! What serves a mounted pool: the server, confined; its keeper, which outlives it; what both say to each other, and to whoever
//! asks how the mount is. The command `keepfs` is words and printing around this package.
//!
//! [`mount::Mounting`] mounts from any program that calls [`serve_if_asked`] first in its `main`.

mod attach;
pub mod claim;
mod clients;
mod comparison;
mod concerned;
mod confine;
pub mod control;
mod deserted;
pub mod environment;
pub mod exposed;
pub mod failure;
pub mod figures;
pub mod health;
mod heap;
mod held;
pub mod history;
pub mod image;
mod keep;
mod kept;
pub mod limits;
mod line;
pub mod lingering;
pub mod live;
mod lives;
mod log_file;
pub mod logging;
pub mod metrics;
pub mod mmp;
pub mod mount;
pub mod namesake;
mod namespaces;
mod offline;
mod open;
pub mod options;
mod panics;
mod pause;
mod place;
#[cfg(feature = "planted")]
pub mod planted;
mod program;
pub mod properties;
pub mod question;
pub mod registry;
mod rights;
mod role;
pub mod room;
mod rooms;
mod said;
pub mod scrub;
mod serve;
mod servers;
mod serving;
pub mod size;
mod starter;
pub mod status;
pub mod table;
mod task;
pub mod told_path;
pub mod unmount;
pub mod unserved;
mod until;
pub mod upgrade;
pub mod visible;
pub mod waiting;
mod wire;
mod words;

pub use claim::{Claim, OpenError, Opened};
pub use failure::Failure;
pub use mount::Mount;
pub use open::OpenOptions;
pub use role::serve_if_asked;

/// What a command ends with: its exit code, or why it failed.
pub type Outcome = Result<u8, Failure>;
