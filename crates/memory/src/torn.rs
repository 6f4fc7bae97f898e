//! A fold that is planted torn: load, then store, where one atomic XOR has to be (S-13.1). Who verifies while several threads write
//! into one frame must notice (S-15.19).

#[cfg(feature = "planted")]
static TORN: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// Plants it in this process, or digs it out.
#[cfg(feature = "planted")]
pub fn plant_torn(torn: bool) {
    TORN.store(torn, core::sync::atomic::Ordering::SeqCst);
}

/// Whether it is planted.
#[cfg(feature = "planted")]
#[inline]
#[doc(hidden)]
pub fn is_torn() -> bool {
    TORN.load(core::sync::atomic::Ordering::Relaxed)
}

/// Whether it is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn is_torn() -> bool {
    false
}
