//! A repair says what it changes.

use super::*;
use std::vec::Vec;

#[test]
fn a_repair_tells_its_ranges() {
    let mut xor = [0; FRAME];
    (xor[5], xor[6], xor[4095]) = (1, 0xff, 2);
    let repair = Repair::of(xor);
    assert_eq!(repair.ranges().collect::<Vec<_>>(), [5..7, 4095..4096]);
    assert_eq!(std::format!("{repair:?}"), "{5..7, 4095..4096}");
    let mut copy = [7; FRAME];
    repair.apply(&mut copy);
    assert_eq!((copy[4], copy[5], copy[6], copy[4095]), (7, 6, 0xf8, 5));
    repair.apply(&mut copy);
    assert_eq!(copy, [7; FRAME]);
}
