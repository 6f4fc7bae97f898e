//! Looks at lines and whole frames (S-15.19) as the lab meets them: told just before bytes are copied, and, planted, without the
//! comparison of bytes and sum for the looks of one place, to prove that a stray write at that very look is noticed.
//!
//! A place is where the reader stands: who hands bytes on is transparent in this build (`track_caller`). All of it is about the
//! thread that sets it.

#[cfg(any(test, feature = "schedules", feature = "planted"))]
mod armed {
    use core::cell::{Cell, RefCell};
    use core::panic::Location;

    /// A place of the source that looks.
    pub type Place = &'static Location<'static>;

    /// A look that is about to be made.
    #[derive(Clone, Copy, Debug)]
    pub struct Look {
        /// At this frame.
        pub frame: u32,
        /// At this line of it; `None`: at all of it.
        pub line: Option<usize>,
        /// From this place.
        pub place: Place,
        /// A bug that is planted by name ([`Use`](crate::planted::Use)) uses what is read without comparing it.
        pub is_blind: bool,
    }

    type Hook = Box<dyn FnMut(Look)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
        static BLIND: Cell<Option<Place>> = const { Cell::new(None) };
    }

    /// Sets what happens before each look of this thread; nothing before looks that it makes itself.
    pub fn set_look(hook: Option<Hook>) {
        HOOK.with(|kept| *kept.borrow_mut() = hook);
    }

    /// Looks of this thread from `place` do not compare any more; `None` digs the bug out.
    pub fn plant_blind(place: Option<Place>) {
        BLIND.set(place);
    }

    /// The moment before a look.
    #[doc(hidden)]
    #[track_caller]
    pub fn look(frame: u32, line: Option<usize>) {
        let place = Location::caller();
        HOOK.with(|kept| {
            if let Ok(mut hook) = kept.try_borrow_mut()
                && let Some(hook) = &mut *hook
            {
                let is_blind = crate::planted::uses::is_blind();
                hook(Look {
                    frame,
                    line,
                    place,
                    is_blind,
                });
            }
        });
    }

    /// Whether looks from here do not compare.
    #[doc(hidden)]
    #[track_caller]
    pub fn is_blind() -> bool {
        // Not in the closure, whose caller it would be.
        let place = Location::caller();
        BLIND.get().is_some_and(|blind| blind == place) || crate::planted::uses::is_blind()
    }
}

#[cfg(any(test, feature = "schedules", feature = "planted"))]
pub use armed::{Look, Place, is_blind, look, plant_blind, set_look};

/// The moment before a look: nothing happens in this build.
#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
#[inline(always)]
#[doc(hidden)]
pub const fn look(_: u32, _: Option<usize>) {}

/// Whether looks from here do not compare: never in this build.
#[cfg(not(any(test, feature = "schedules", feature = "planted")))]
#[inline(always)]
#[doc(hidden)]
pub const fn is_blind() -> bool {
    false
}
