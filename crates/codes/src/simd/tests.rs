//! The narrow kernels on machines whose dispatch would choose the wide ones.

use super::*;
use std::vec::Vec;

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
