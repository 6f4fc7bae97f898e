//! The kernel's caches, which all tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};

static CACHES: Mutex<()> = Mutex::new(());

/// Held by tests that drop the kernel's caches and by those that rely on them.
pub fn caches() -> MutexGuard<'static, ()> {
    CACHES.lock().unwrap_or_else(PoisonError::into_inner)
}
