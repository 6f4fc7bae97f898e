//! What the steps of a put cost, for the lab (BARS M-4). Only with the feature `measure`.

pub use crate::txn::recon::words_found;
pub use keepfs_vault::measure::{Steps, Way};

use crate::error::Error;
use crate::txn::Ranges;
use keepfs_codes::Protection;
use keepfs_memory::Guard;
use std::time::Duration;

/// Ranges of a frame that a transaction has.
const RANGES: usize = 4;

/// The steps of a put of `len` bytes under `code` and `guard`, each the least of so many trials. Errors: `Memory`.
pub fn put(code: Protection, guard: Guard, len: usize, trials: usize) -> Result<Steps, Error> {
    let mut ranges = Ranges::default();
    let mut joins = |i: usize, offset: usize| {
        if i.is_multiple_of(RANGES) {
            ranges.clear();
        }
        ranges.insert(offset as u16, (offset + len) as u16);
        std::hint::black_box(&ranges);
    };
    Ok(keepfs_vault::measure::put(code, guard, len, trials, &mut joins)?)
}

/// Nanoseconds of a raw write ([`keepfs_vault::measure::writes`]). Errors: `Memory`; `Damaged`.
pub fn writes(way: Way, code: Protection, bytes: usize, time: Duration) -> Result<f64, Error> {
    Ok(keepfs_vault::measure::writes(way, code, bytes, time)?)
}
