//! What a rung of the ladder ignores, to prove that the tests of the ladder find it (S-15.14, S-15.16).

bugs! { Rung:
    /// The witness does not ask the log.
    LogIgnored = "witness without the log",
    /// The witness does not ask the redo.
    RedoIgnored = "witness without the redo",
    /// The witness does not ask open transactions.
    OpenIgnored = "witness without open transactions",
    /// A copy on the device is taken for a frame that was changed since.
    DirtyReadAgain = "older copy taken for a changed frame",
}

#[cfg(feature = "planted")]
mod armed {
    use super::Rung;
    use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

    static PLANTED: AtomicU32 = AtomicU32::new(u32::MAX);

    /// Plants a bug in this process, or digs it out.
    pub fn plant_rung(bug: Option<Rung>) {
        PLANTED.store(bug.map_or(u32::MAX, |bug| bug as u32), SeqCst);
    }

    /// Whether it is planted.
    #[doc(hidden)]
    pub fn ignores(bug: Rung) -> bool {
        PLANTED.load(SeqCst) == bug as u32
    }
}

#[cfg(feature = "planted")]
pub use armed::{ignores, plant_rung};

/// Whether it is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn ignores(_: Rung) -> bool {
    false
}
