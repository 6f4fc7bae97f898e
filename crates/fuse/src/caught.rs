//! Panics that are caught and answered. Whoever catches one says so first: a hook, which runs before anything is unwound, can tell
//! them from those that end a thread for good.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, and catches its panic.
pub fn caught<T>(f: impl FnOnce() -> T) -> thread::Result<T> {
    let before = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(f));
    IS_CAUGHT.set(before);
    done
}

/// Whether a panic of this thread is caught now.
pub fn is_caught() -> bool {
    IS_CAUGHT.get()
}
