//! Values that one thread changes while others read their neighbours (decision 0667).

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Stripes of what every transaction changes and nobody needs as one value at once.
pub const STRIPES: usize = 8;

thread_local! {
    static STRIPE: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES
    };
}

/// The stripe of this thread; threads that begin one behind the other have different ones.
#[inline]
pub fn stripe() -> usize {
    STRIPE.with(|stripe| *stripe)
}

/// A value alone on its cache lines: a pair of them, since processors fetch two at a time.
#[derive(Default, Debug)]
#[repr(align(128))]
pub struct Padded<T>(T);

impl<T> Padded<T> {
    /// `value`, alone.
    #[inline]
    pub const fn new(value: T) -> Padded<T> {
        Padded(value)
    }
}

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
