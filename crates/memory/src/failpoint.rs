//! Failpoints: a test thread stops dead before its n-th store into guarded memory, as a killed server would.
//!
//! In the normal build there is nothing of it: [`store`] is the constant `true`. In unit tests of this package and of those that write to
//! regions (feature `failpoints`) every store into one counts, each byte of a copy for itself. After the stop nothing that the
//! thread does reaches the regions any more (destructors run, their stores are dropped), so what stands there is what
//! `kill -9` would have left.

/// Whether this build can have failpoints at all.
pub const ARMED: bool = cfg!(any(test, feature = "failpoints"));

/// Called before each store into a region: whether it may happen.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub const fn store() -> bool {
    true
}

/// Whether this thread counts its stores.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub const fn is_armed() -> bool {
    false
}

/// Whether this thread was stopped: what it holds stays held.
#[cfg(not(any(test, feature = "failpoints")))]
#[inline(always)]
pub const fn is_dead() -> bool {
    false
}

#[cfg(any(test, feature = "failpoints"))]
pub use armed::{interrupt, is_armed, is_dead, ran_out, run, run_out, store};

#[cfg(any(test, feature = "failpoints"))]
mod armed {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// The thread was stopped by its failpoint.
    #[derive(Debug, PartialEq, Eq)]
    pub struct Killed;

    #[derive(Clone, Copy)]
    enum State {
        Off,
        /// So many stores may still happen.
        Left(u64),
        /// So many stores until somebody else comes between.
        Between(u64),
        Dead,
    }

    thread_local! {
        static STATE: Cell<State> = const { Cell::new(State::Off) };
        static RAN_OUT: Cell<bool> = const { Cell::new(false) };
        static OTHER: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Runs `f`, and `other` before its n-th store into guarded memory, as another thread might. Whether it came to that.
    pub fn interrupt(stores: u64, other: Box<dyn FnOnce()>, f: impl FnOnce()) -> bool {
        OTHER.set(Some(other));
        STATE.set(State::Between(stores));
        f();
        STATE.set(State::Off);
        OTHER.take().is_none()
    }

    /// Within [`run`]: what was to be cut is done, the next store kills.
    pub fn run_out() {
        STATE.set(State::Left(0));
        RAN_OUT.set(true);
    }

    /// Whether the last [`run`] came to its [`run_out`].
    pub fn ran_out() -> bool {
        RAN_OUT.get()
    }

    pub fn is_armed() -> bool {
        !matches!(STATE.get(), State::Off)
    }

    pub fn is_dead() -> bool {
        matches!(STATE.get(), State::Dead)
    }

    pub fn store() -> bool {
        match STATE.get() {
            State::Off => true,
            State::Dead => false,
            State::Between(0) => {
                STATE.set(State::Off);
                if let Some(other) = OTHER.take() {
                    other();
                }
                // Steps go on being single bytes.
                STATE.set(State::Between(u64::MAX));
                true
            }
            State::Between(n) => {
                STATE.set(State::Between(n - 1));
                true
            }
            State::Left(0) => {
                STATE.set(State::Dead);
                resume_unwind(Box::new(Killed)) // No message: nothing went wrong.
            }
            State::Left(n) => {
                STATE.set(State::Left(n - 1));
                true
            }
        }
    }

    /// Runs `f` with so many stores allowed; the next one kills it.
    pub fn run<T>(stores: u64, f: impl FnOnce() -> T) -> Result<T, Killed> {
        STATE.set(State::Left(stores));
        RAN_OUT.set(false);
        let result = catch_unwind(AssertUnwindSafe(f));
        STATE.set(State::Off);
        match result {
            Ok(value) => Ok(value),
            Err(payload) if payload.is::<Killed>() => Err(Killed),
            Err(payload) => resume_unwind(payload),
        }
    }
}
