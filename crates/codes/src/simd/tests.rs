//! The narrow kernels on machines whose dispatch would choose the wide ones; and any level for any test.

use super::*;
use std::cell::Cell;
use std::thread_local;
use std::vec::Vec;

thread_local! {
    static FORCED: Cell<Option<Level>> = const { Cell::new(None) };
}

/// The level that the test on this thread asked for.
pub(crate) fn forced() -> Option<Level> {
    FORCED.get()
}

/// Runs `test` once at each level this machine has, the portable one first.
pub(crate) fn at_every_level(test: impl Fn()) {
    let found = level();
    let narrow = found.clmul().map(Level::Clmul);
    let wide = matches!(found, Level::Avx512(_)).then_some(found);
    for level in [Some(Level::Portable), narrow, wide].into_iter().flatten() {
        FORCED.set(Some(level));
        test();
    }
    FORCED.set(None);
}

#[test]
fn narrow_kernels_equal_the_dispatched_results() {
    let Some(isa) = level().clmul() else {
        return;
    };
    for blocks in 1..70 {
        let data: Vec<[u8; 64]> = (0..blocks)
            .map(|b| core::array::from_fn(|i| (b * 31 + i * 7 + b * i) as u8))
            .collect();
        let flat = data.as_flattened();
        assert_eq!(!isa.crc64(!0, &data), crate::crc64::full(flat));
        assert_eq!(!isa.crc32c(!0, flat), crate::crc32c::of(flat));
        let mut old = [0u8; crate::FRAME];
        let len = flat.len().min(crate::FRAME);
        old[..len].reverse();
        let narrow = isa.delta64(&crate::crc64::PLACES, 0, &old[..len], &flat[..len]);
        assert_eq!(narrow, crate::crc64::delta(0, &old[..len], &flat[..len]));
    }
}
