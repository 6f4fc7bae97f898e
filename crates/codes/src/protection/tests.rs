//! The table of S-15.1.

use super::*;
use crate::code::tests::Guarded;
use crate::testing::Rng;
use std::string::ToString;

#[test]
fn names_and_lengths_are_those_of_the_specification() {
    let table = [
        ("off", 0),
        ("crc", 0),
        ("pcrc", 64),
        ("pq", 128),
        ("evenodd64", 2048),
        ("evenodd256", 512),
        ("adler", 0),
    ];
    for (code, (name, parity)) in Protection::ALL.into_iter().zip(table) {
        assert_eq!((code.name(), code.parity_len()), (name, parity));
        assert_eq!(name.parse(), Ok(code));
        assert!(parity <= crate::PARITY_MAX && parity % 8 == 0);
    }
    assert_eq!(Protection::default(), Protection::Pcrc);
}

#[test]
fn an_unknown_name_is_told_with_the_known_ones() {
    let error = "raid6".parse::<Protection>().unwrap_err();
    let message = "unknown code; one of off crc pcrc pq evenodd64 evenodd256 adler";
    assert_eq!(error.to_string(), message);
}

#[test]
fn off_says_nothing() {
    let mut guarded = Guarded::new(Protection::Off, Rng::new(1).frame());
    guarded.put(7, b"change");
    guarded.frame.fill(0);
    assert_eq!((guarded.sum, guarded.verify()), (0, true));
}
