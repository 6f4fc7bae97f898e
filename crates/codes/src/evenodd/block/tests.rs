//! The blind decoders: what they correct (all of it, exhaustively) and what they cannot see (Greenan & Miller 5.1, and
//! docs/SPEC.md S-15.8).

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "some tests do not run there"))]

use super::*;
use crate::testing::{Rng, rounds};
use std::vec::Vec;

/// XORs `damage` over a block and asks; the block as the decoder would leave it.
fn decoded(data: &[u8], parity: &[u8; PARITY], start: usize, damage: &[u8], decoder: Decoder) -> (Blind, Vec<u8>) {
    let mut block = data.to_vec();
    block[start..]
        .iter_mut()
        .zip(damage)
        .for_each(|(byte, xor)| *byte ^= xor);
    let verdict = decode(&block, parity, decoder);
    if let Blind::Columns(columns) = verdict {
        for (column, xor) in columns {
            let bytes = block[column * COLUMN..][..COLUMN].iter_mut();
            bytes.zip(xor.to_le_bytes()).for_each(|(byte, xor)| *byte ^= xor);
        }
    }
    (verdict, block)
}

#[test]
fn every_column_is_corrected_by_both_decoders() {
    let mut rng = Rng::new(1);
    for len in [64, 256] {
        let data = rng.bytes(len);
        let parity = encode(&data);
        assert!(check(&data, &parity));
        for column in 0..len / COLUMN {
            for _ in 0..rounds(200, 2) {
                let mut damage = rng.bytes(COLUMN);
                damage[rng.below(COLUMN)] |= 1;
                for decoder in [Decoder::Column, Decoder::Burst] {
                    let (verdict, block) = decoded(&data, &parity, column * COLUMN, &damage, decoder);
                    assert!(matches!(verdict, Blind::Columns(_)));
                    assert_eq!(block, data);
                }
            }
        }
    }
}

#[cfg(not(miri))]
#[test]
fn every_byte_error_is_corrected() {
    // The paper's injections were of one byte.
    let data = Rng::new(2).bytes(256);
    let parity = encode(&data);
    for at in 0..256 {
        for xor in (1..=255).step_by(rounds(1, 97)) {
            assert_eq!(decoded(&data, &parity, at, &[xor], Decoder::Column).1, data);
        }
    }
}

#[cfg(not(miri))]
#[test]
fn every_unaligned_burst_within_the_bound_is_corrected() {
    let mut rng = Rng::new(3);
    for (len, bound) in [(64, 15), (256, 9)] {
        let data = rng.bytes(len);
        let parity = encode(&data);
        for burst in 1..=bound {
            for start in (0..=len - burst).step_by(rounds(1, 50)) {
                for _ in 0..rounds(40, 1) {
                    let damage: Vec<u8> = (0..burst).map(|_| rng.change()).collect();
                    let (_, block) = decoded(&data, &parity, start, &damage, Decoder::Burst);
                    assert_eq!(block, data, "{burst} bytes at {start} of {len}");
                }
            }
        }
    }
}

#[test]
fn an_aligned_decoder_refuses_bursts_over_two_columns() {
    let mut rng = Rng::new(4);
    let data = rng.bytes(64);
    let parity = encode(&data);
    for _ in 0..rounds(500, 5) {
        let damage: Vec<u8> = (0..8).map(|_| rng.change()).collect();
        let (verdict, _) = decoded(&data, &parity, 12, &damage, Decoder::Column);
        assert_eq!(verdict, Blind::Uncorrectable);
    }
}

#[test]
fn damage_of_parity_is_told() {
    let data = Rng::new(5).bytes(256);
    for at in [0, 15, 16, 31] {
        let mut parity = encode(&data);
        parity[at] ^= 4;
        assert!(!check(&data, &parity));
        assert_eq!(decode(&data, &parity, Decoder::Column), Blind::Parity);
    }
    assert_eq!(decode(&data, &encode(&data), Decoder::Burst), Blind::Clean);
}

#[test]
fn a_blind_decoder_takes_a_fill_for_bad_parity() {
    // Why Keepfs asks the CRC: the paper's decoder would bless this.
    let data = [0; 64];
    let (verdict, _) = decoded(&data, &encode(&data), 16, &[0x33; 32], Decoder::Column);
    assert_eq!(verdict, Blind::Parity);
}

#[test]
#[should_panic(expected = "64 or 256")]
fn a_block_of_another_length_is_refused() {
    encode(&[0; 128]);
}
