//! The locks of this package and of those above, through one door: tests search the orders in which threads take them (decision
//! 0710).
//!
//! In the normal build they are those of `parking_lot` and nothing of the search is there. In unit tests (feature `schedules`)
//! they are the same locks, and a thread that takes part in a search gives its turn away at each of them.

#[cfg(not(any(test, feature = "schedules")))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(any(test, feature = "schedules"))]
pub use searched::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// A word that decides who goes on.
#[cfg(not(any(test, feature = "schedules")))]
pub type Word = core::sync::atomic::AtomicU64;
#[cfg(any(test, feature = "schedules"))]
pub use searched::Word;

/// A rule that a search can be made to break, so that it shows what it finds (S-11.3, S-15.19).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// One thread at a time shuts the gate.
    OneOwner,
    /// What a bitmap says is used before the gate opens.
    UsedWhileShut,
    /// Who has the lock of redo looks at no frame (S-15.19).
    LookUnderRedo,
    /// A writer of a frame takes no lock under which frames are looked at (S-15.19).
    LockAsWriter,
}

/// Whether this thread takes part in a search that breaks the rule: never in this build.
#[cfg(not(any(test, feature = "schedules")))]
#[inline(always)]
pub const fn breaks(_: Rule) -> bool {
    false
}

/// Lets others run.
#[cfg(not(any(test, feature = "schedules")))]
#[inline]
pub fn yield_now() {
    std::thread::yield_now();
}

/// Lets others run for so long.
#[cfg(not(any(test, feature = "schedules")))]
pub fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}

pub mod held;

pub use held::{Awaited, AwaitedGuard};

#[cfg(any(test, feature = "schedules"))]
pub use schedule::{breaks, pause, yield_now};

#[cfg(any(test, feature = "schedules"))]
pub mod schedule;
#[cfg(any(test, feature = "schedules"))]
// Each does what its namesake of `parking_lot` does.
#[allow(missing_docs)]
mod searched;
