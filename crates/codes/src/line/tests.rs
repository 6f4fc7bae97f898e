//! S-15.20.

use super::*;
use crate::testing::{Rng, at_every_level, rounds};

/// S-15.20: the sums of the lines make the CRC-64 of the frame.
#[test]
fn sums_make_the_frames_crc() {
    at_every_level(|| {
        let mut rng = Rng::new(20);
        for _ in 0..rounds(200, 1) {
            let frame = rng.frame();
            assert_eq!(crc(&sums(&frame)), crc64::full(&frame));
        }
        assert_eq!(sums(&[0; FRAME]), [0; LINES]);
    });
}

/// S-15.20: a line's sum follows a change by the delta of the frame.
#[test]
fn a_delta_of_the_frame_is_one_of_its_line() {
    at_every_level(|| {
        let mut rng = Rng::new(21);
        for _ in 0..rounds(2000, 3) {
            let mut frame = rng.frame();
            let mut kept = sums(&frame);
            let number = rng.below(LINES);
            let from = rng.below(LINE);
            let len = 1 + rng.below(LINE - from);
            let offset = number * LINE + from;
            let new = rng.bytes(len);
            kept[at(offset)] ^= crc64::delta(offset, &frame[offset..offset + len], &new);
            frame[offset..offset + len].copy_from_slice(&new);
            assert_eq!(kept, sums(&frame), "{len} bytes at {offset}");
        }
    });
}

/// S-15.20: equal bytes in two lines have two sums, and no change of up to 64 bits leaves a line's sum as it is.
#[test]
fn a_sum_tells_the_place() {
    let line = [7; LINE];
    for one in 0..rounds(LINES, 2) {
        for other in 0..one {
            assert_ne!(sum(one, &line), sum(other, &line));
        }
        for bit in 0..rounds(64, 4) {
            let mut other = line;
            other[3 * bit] ^= 1 << (bit % 8);
            assert_ne!(sum(one, &line), sum(one, &other));
        }
    }
}
