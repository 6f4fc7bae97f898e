//! A small pool without its background, opened as tests of damage ask for it.

use keepfs_store::{Equations, Error, Store, StoreOptions};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

/// Errors: as `Store::open`.
pub fn open(device: &Arc<SimDevice>, read_only: bool, cut_log: bool) -> Result<Arc<Store>, Error> {
    Store::open(device.clone(), &options(read_only, cut_log))
}

/// How.
pub fn options(read_only: bool, cut_log: bool) -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,
        read_only,
        cut_log,
        ..StoreOptions::default()
    }
}
