//! How servers have their heap.

use std::process::Command;

/// What glibc asks for the most heaps it may make.
pub const HEAPS: &str = "MALLOC_ARENA_MAX";

/// The program gets one heap for all of its threads, unless whoever started us asked for another number: glibc makes up to
/// eight for each processor, and what one thread has freed of its own is of no use to another (P-9; decision 0673).
pub fn one(command: &mut Command) {
    if std::env::var_os(HEAPS).is_none() {
        command.env(HEAPS, "1");
    }
}
