//! Adler-32 against an independent crate, WAFL's formula against the sums, fragments of several threads (S-15.9).

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "some tests do not run there"))]

use super::*;
use crate::testing::{Rng, rounds};

#[test]
fn equals_the_catalogue_and_the_oracle() {
    assert_eq!(of(b"123456789"), 0x091e_01de);
    assert_eq!(of(b""), 1);
    for len in (0..rounds(600, 70))
        .chain([4095, 4096, 4097, 9000])
        .filter(|len| !cfg!(miri) || *len < 100)
    {
        let data = Rng::new(len as u64).bytes(len);
        #[cfg(not(miri))]
        assert_eq!(of(&data), adler2::adler32_slice(&data), "length {len}");
        let by_definition = data.iter().fold((1, 0), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        assert_eq!(of(&data), by_definition.0 | by_definition.1 << 16);
    }
    let worst = [0xff; 3 * FRAME];
    #[cfg(not(miri))]
    assert_eq!(of(&worst), adler2::adler32_slice(&worst));
    assert_eq!(of(&worst[..1]), 0x0100_0100);
}

#[cfg(not(miri))]
#[test]
fn the_formula_of_the_paper_moves_the_checksum_byte_by_byte() {
    let mut rng = Rng::new(1);
    let mut frame = rng.frame();
    let mut c = of(&frame);
    for _ in 0..rounds(3000, 10) {
        let at = rng.below(FRAME);
        let new = rng.next() as u8;
        c = replace_byte(c, frame[at], new, FRAME as u32, at as u32 + 1);
        frame[at] = new;
        assert_eq!(c, of(&frame));
    }
}

#[cfg(not(miri))]
#[test]
fn a_fragment_over_many_bytes_is_the_formula_over_each() {
    let mut rng = Rng::new(2);
    for _ in 0..rounds(500, 5) {
        let offset = rng.below(FRAME);
        let len = rng.below(100).min(FRAME - offset);
        let (old, new) = (rng.bytes(len), rng.bytes(len));
        let each = old.iter().zip(&new).enumerate().fold(0, |c, (at, (old, new))| {
            replace_byte(c, *old, *new, FRAME as u32, (offset + at) as u32 + 1)
        });
        assert_eq!(fragment(offset, &old, &new), each);
    }
    // The greatest sums there are.
    let (zeros, ones) = ([0; FRAME], [0xff; FRAME]);
    assert_eq!(combine(of(&zeros), fragment(0, &zeros, &ones)), of(&ones));
    assert_eq!(combine(of(&ones), fragment(0, &ones, &zeros)), of(&zeros));
}

#[cfg(not(miri))]
#[test]
fn fragments_of_threads_combine_to_the_checksum() {
    let mut rng = Rng::new(3);
    let before = rng.frame();
    let after = rng.frame();
    let fragments = Fragments::<2>::default();
    let per_thread = FRAME / 4;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (fragments, before, after) = (&fragments, &before, &after);
            scope.spawn(move || {
                let own = thread * per_thread..(thread + 1) * per_thread;
                for at in own.step_by(rounds(8, 256)) {
                    let range = at..at + rounds(8, 256);
                    // Four threads on two processors: they share fragments.
                    fragments.absorb(thread, fragment(at, &before[range.clone()], &after[range]));
                }
            });
        }
    });
    assert_eq!(fragments.combined(of(&before)), of(&after));
}

#[cfg(not(miri))]
#[test]
fn the_known_weakness_is_there() {
    // Two pointers with equal byte sums change places: Adler's A never sees a swap, B sees it by their distance.
    let mut frame = [0; FRAME];
    frame[800] = 5;
    frame[800 + 64] = 3;
    frame[800 + 128] = 5;
    let mut swapped = frame;
    swapped[800] -= 1;
    swapped[800 + 64] += 2;
    swapped[800 + 128] -= 1;
    assert_eq!(of(&frame), of(&swapped));
    assert_ne!(crate::crc64::full(&frame), crate::crc64::full(&swapped));
}
