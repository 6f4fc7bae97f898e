//! What a thread holds when it waits for a frame or mends one: nothing that whoever mends a frame waits for (S-15.29,
//! decision 0710).
//!
//! In builds with assertions each thread counts what it holds, and a look at a frame that holds something stops there, whether
//! it would have had to wait or not. In others nothing of it is there.

use super::{Mutex, MutexGuard};
use core::ops::{Deref, DerefMut};

/// A lock that whoever mends a frame waits for (S-15.14): of redo, of the log. Who has it looks at no frame.
pub struct Awaited<T>(Mutex<T>);

/// [`Awaited`], taken.
pub struct AwaitedGuard<'m, T>(MutexGuard<'m, T>);

impl<T> Awaited<T> {
    /// A lock that nobody has.
    pub const fn new(value: T) -> Awaited<T> {
        Awaited(Mutex::new(value))
    }

    /// Takes it. The caller is no writer of a frame.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> AwaitedGuard<'_, T> {
        counted::takes_lock();
        let guard = self.0.lock();
        counted::lock(true);
        AwaitedGuard(guard)
    }
}

impl<T> AwaitedGuard<'_, T> {
    /// Gives it away while `f` runs.
    pub fn unlocked<U>(guard: &mut Self, f: impl FnOnce() -> U) -> U {
        counted::lock(false);
        let done = MutexGuard::unlocked(&mut guard.0, f);
        counted::lock(true);
        done
    }
}

impl<T> Deref for AwaitedGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for AwaitedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[cfg(debug_assertions)]
impl<T> Drop for AwaitedGuard<'_, T> {
    fn drop(&mut self) {
        counted::lock(false);
    }
}

#[cfg(debug_assertions)]
mod counted {
    use core::cell::Cell;
    use std::thread::LocalKey;

    thread_local! {
        /// Locks that a repair waits for.
        static LOCKS: Cell<u32> = const { Cell::new(0) };
        /// Frames that the thread counts as a writer of.
        static WRITES: Cell<u32> = const { Cell::new(0) };
        /// Frames that it mends.
        static REPAIRS: Cell<u32> = const { Cell::new(0) };
    }

    fn count(what: &'static LocalKey<Cell<u32>>, more: bool) {
        let now = what.get();
        what.set(if more { now + 1 } else { now.saturating_sub(1) });
    }

    pub(super) fn lock(is_taken: bool) {
        count(&LOCKS, is_taken);
    }

    /// This thread counts as a writer of one more frame, or of one less. A writer that a test kills is none.
    pub fn writes(one_more: bool) {
        if !one_more || !keepfs_memory::failpoint::is_armed() {
            count(&WRITES, one_more);
        }
    }

    /// This thread holds one more frame to mend it, or one less.
    pub fn repairs(one_more: bool) {
        count(&REPAIRS, one_more);
    }

    /// The thread takes a lock whose owners may wait for frames or for who mends them: it is no writer of one.
    #[track_caller]
    pub fn takes_lock() {
        assert!(
            WRITES.get() == 0 || is_searched(),
            "a writer of a frame takes a lock whose owner may wait for that frame (S-15.19)"
        );
    }

    /// The thread looks at a frame: it may have to wait for writers, for another's repair, and for its own.
    #[track_caller]
    pub fn may_wait() {
        let holds = (LOCKS.get(), WRITES.get(), REPAIRS.get());
        assert!(
            holds == (0, 0, 0) || is_searched(),
            "a frame is looked at by who holds {} locks of redo or log, writes {} frames, and mends {}: a repair may wait for \
             that (S-15.19)",
            holds.0,
            holds.1,
            holds.2
        );
    }

    /// A search of orders breaks the rule, to show what comes of it.
    fn is_searched() -> bool {
        use crate::locks::{Rule, breaks};
        breaks(Rule::LookUnderRedo) || breaks(Rule::LockAsWriter)
    }
}

#[cfg(not(debug_assertions))]
mod counted {
    #[inline(always)]
    pub(super) const fn lock(_: bool) {}

    /// Nothing, where nothing is asserted.
    #[inline(always)]
    pub const fn writes(_: bool) {}

    /// The same.
    #[inline(always)]
    pub const fn repairs(_: bool) {}

    /// The same.
    #[inline(always)]
    pub const fn takes_lock() {}

    /// The same.
    #[inline(always)]
    pub const fn may_wait() {}
}

pub use counted::{may_wait, repairs, takes_lock, writes};
