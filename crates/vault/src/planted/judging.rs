//! Wrong judgements about damaged frames that the lab plants to prove that its blind judge notices (S-15.18).

bugs! { Judging:
    /// What the keyed sum says is not asked (S-15.18).
    KeyedIgnored = "keyed sum not compared",
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(u32::MAX);

/// Plants a wrong judgement in this process, or digs it out.
#[cfg(feature = "planted")]
pub fn plant_judging(bug: Option<Judging>) {
    PLANTED.store(bug.map_or(u32::MAX, |b| b as u32), core::sync::atomic::Ordering::SeqCst);
}

/// Whether `bug` is planted.
#[cfg(feature = "planted")]
#[inline]
#[doc(hidden)]
pub fn judges(bug: Judging) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u32
}

/// Whether `bug` is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn judges(_bug: Judging) -> bool {
    false
}
