//! Calls of the door by the wrong group of callers, for the lab: legal for the door, told by the next look (S-15.5).

use keepfs_codes::identity::Group;

#[cfg(feature = "planted")]
static CALLER: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(u64::MAX);

/// The next change of bytes that another group makes in this process is made by `caller`; `None` digs the bug out. Returns
/// whether the one before was still waiting for such a change.
#[cfg(feature = "planted")]
pub fn plant_caller(caller: Option<Group>) -> bool {
    let number = caller.map_or(u64::MAX, Group::number);
    CALLER.swap(number, core::sync::atomic::Ordering::SeqCst) != u64::MAX
}

/// Who makes a change that `own` shall make.
#[cfg(feature = "planted")]
#[doc(hidden)]
pub fn caller(own: Group) -> Group {
    use core::sync::atomic::Ordering::SeqCst;
    let planted = Group::of(CALLER.load(SeqCst)).filter(|planted| *planted != own);
    let taken = planted.filter(|planted| {
        CALLER
            .compare_exchange(planted.number(), u64::MAX, SeqCst, SeqCst)
            .is_ok()
    });
    taken.unwrap_or(own)
}

/// Who makes a change that `own` shall make: it does, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn caller(own: Group) -> Group {
    own
}
