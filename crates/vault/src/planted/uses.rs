//! Rules of what is used, replaced and taken back (S-15.11, S-15.14, S-15.19, S-13.6) that are put aside, to prove that a test
//! or a campaign notices (decision 0807): the one that names it. All of it is about the thread that sets it.

bugs! { Use:
    /// A line is verified, and what is used of it is loaded once more.
    VerifyThenLoad = "a line verified, then loaded",
    /// Bytes and sum that disagree once are damage, whoever writes there.
    DamageAtOnce = "damage at the first look that disagrees",
    /// The header of a metablock is used as it lies there.
    HeaderUnverified = "header not verified",
    /// Counts of SHARES are used as they lie there.
    ShareUnverified = "count not verified",
    /// What auditors look at is taken as it lies there.
    AuditUnverified = "what is audited not verified",
    /// What a change replaces is taken as it lies there.
    OldUnverified = "old bytes not verified",
    /// Whether a bit is as its caller says is judged by what stands there when it is changed.
    BitFromAtomic = "bit judged as it is changed",
    /// A change is taken back from what stands there, not from what it had stored.
    BackUnverified = "taken back from what stands there",
    /// A commit looks at frames while it has the lock of redo.
    LoadUnderRedo = "frame looked at under the lock of redo",
    /// The records of a change of several lines come before the first of them is changed.
    RecordsFirst = "all records, then all changes",
    /// A rollback encodes parity anew over lines that are not proved.
    ParityAnew = "parity encoded over an unproved line",
}

#[cfg(any(test, feature = "schedules", feature = "planted"))]
mod armed {
    use super::Use;
    use core::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Use>> = const { Cell::new(None) };
        /// Looks do not compare now.
        static BLIND: Cell<bool> = const { Cell::new(false) };
    }

    /// Plants a bug in this thread, or digs it out.
    pub fn plant_use(bug: Option<Use>) {
        PLANTED.set(bug);
    }

    /// Whether this thread puts the rule aside.
    #[doc(hidden)]
    pub fn omits(bug: Use) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// While it lives, looks do not compare.
    #[doc(hidden)]
    #[must_use]
    #[derive(Debug)]
    pub struct Blind(bool);

    /// Looks do not compare while what is returned lives, if this thread puts the rule aside.
    #[doc(hidden)]
    pub fn blind(bug: Use) -> Blind {
        let blinds = omits(bug) && !BLIND.get();
        if blinds {
            BLIND.set(true);
        }
        Blind(blinds)
    }

    impl Drop for Blind {
        fn drop(&mut self) {
            if self.0 {
                BLIND.set(false);
            }
        }
    }

    pub(in crate::planted) fn is_blind() -> bool {
        BLIND.get()
    }
}

#[cfg(any(test, feature = "schedules", feature = "planted"))]
pub(super) use armed::is_blind;
#[cfg(any(test, feature = "schedules", feature = "planted"))]
pub use armed::{blind, omits, plant_use};

/// Nobody is blind in this build.
#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
#[doc(hidden)]
#[derive(Debug)]
pub struct Blind;

#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
impl Drop for Blind {
    #[inline(always)]
    fn drop(&mut self) {}
}

/// Looks compare in this build.
#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
#[inline(always)]
#[doc(hidden)]
pub const fn blind(_: Use) -> Blind {
    Blind
}

/// Whether the rule is put aside: never in this build.
#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
#[inline(always)]
#[doc(hidden)]
pub const fn omits(_: Use) -> bool {
    false
}
