//! The environment of servers, of keepers and of what they start: what they need, and nothing that whoever mounted had in
//! theirs. A server that is taken over by its image can read it (decision 0612).

use crate::{heap, logging};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What processes are called that are started as /proc/self/exe.
pub const NAME: &str = "keepfs";

/// Names that are handed on, if they are there.
const KEPT: [&str; 4] = ["PATH", logging::VARIABLE, "RUST_BACKTRACE", heap::HEAPS];

/// For the tests.
#[cfg(feature = "planted")]
const PLANTED: &[&str] = &["KEEPFS_PLANTED"];
#[cfg(not(feature = "planted"))]
const PLANTED: &[&str] = &[];

/// The program gets no more of the environment than it needs, and a name.
pub fn bare(command: &mut Command) {
    command.arg0(NAME).env_clear();
    for name in KEPT.iter().chain(PLANTED) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}
