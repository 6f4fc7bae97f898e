//! Tests of CRC-32C against an independent crate.

use super::*;
use std::vec::Vec;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn check_value_of_the_catalogue() {
    assert_eq!(of(b"123456789"), 0xE306_9283);
    assert_eq!(!update_portable(!0, b"123456789"), 0xE306_9283);
}

#[test]
fn all_paths_agree_at_every_length() {
    let top = if cfg!(miri) { 40 } else { 1200 };
    for len in (0..top).chain([4095, 4096, 4097]) {
        let data = bytes(len);
        assert_eq!(of(&data), !update_portable(!0, &data), "length {len}");
        #[cfg(not(miri))]
        assert_eq!(of(&data), crc32c::crc32c(&data), "length {len}");
    }
}
