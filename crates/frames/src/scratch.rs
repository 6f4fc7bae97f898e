//! A page of private memory that each thread keeps: to clear 4 KiB anew for every look at a frame costs as much as the
//! look itself.

use keepfs_format::PAGE;
use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Option<Box<[u8; PAGE]>>> = const { Cell::new(None) };
}

/// Calls `f` with a page of whatever content. May be nested.
pub fn with_page<T>(f: impl FnOnce(&mut [u8; PAGE]) -> T) -> T {
    let mut page = SPARE.take().unwrap_or_else(|| Box::new([0; PAGE]));
    let result = f(&mut page);
    SPARE.set(Some(page));
    result
}
