//! Why a command failed: one sentence for the user, one exit code for scripts.

use super::tell::warn_of;
use keepfs_server::{Failure, figures};
use serde_json::{Value, json};

/// Whose exit codes are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manners {
    /// 1 failed, 2 wrong usage.
    Keepfs,
    /// As fsck(8): 8 could not be done, 16 wrong usage.
    Fsck,
    /// As mount(8): 32 failed, 1 wrong usage.
    Mount,
}

/// Tells the user why what was called as `name` failed; the exit code.
pub fn told(failure: &Failure, name: &str, manners: Manners) -> u8 {
    warn_of!("{name}: {failure}");
    code(matches!(failure, Failure::Usage(_)), manners)
}

/// The same for programs, where there is no other answer.
pub fn for_programs(failure: &Failure) -> Value {
    json!({"version": figures::VERSION, "error": failure.to_string()})
}

/// The words of the command line make no sense, or were a wish for help, which is granted on standard output and is no failure; the exit
/// code.
pub fn of_words(words: &clap::Error, manners: Manners) -> u8 {
    // There is nobody to tell if that fails.
    drop(words.print());
    if words.use_stderr() { code(true, manners) } else { 0 }
}

fn code(is_usage: bool, manners: Manners) -> u8 {
    match (manners, is_usage) {
        (Manners::Keepfs, false) => 1,
        (Manners::Keepfs, true) => 2,
        (Manners::Fsck, false) => 8,
        (Manners::Fsck, true) => 16,
        (Manners::Mount, false) => 32,
        (Manners::Mount, true) => 1,
    }
}
