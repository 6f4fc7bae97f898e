//! The quick form of the program `scribble`: racing puts under a verifier, and bits flipped behind the door
//! (S-15.19).

use keepfs_lab::scribble::{self, Fate};
use std::sync::{Mutex, PoisonError};

/// A flip looks for its frame in all arenas of the process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn racing_puts_make_no_finding_and_lose_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tally = scribble::puts(100_000).expect("no Finding");
    assert_eq!(tally.puts, 100_000);
    assert!(tally.verifies > 0 && !tally.time.is_zero());
}

#[test]
fn a_flipped_bit_is_told_or_reaches_no_device() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut told = 0;
    for round in 0..12u64 {
        let fate = scribble::flip(round * 53, round as usize * 331).expect("a round");
        assert_ne!(fate, Fate::Escaped, "round {round}");
        told += u64::from(fate == Fate::Told);
    }
    assert!(told > 0, "no flip was ever told");
}

/// A clean frame is looked at when it is evicted; its home is the truth.
#[test]
fn a_scribbled_clean_frame_is_told_and_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for offset in [0, 1000, 4031] {
        assert_eq!(
            scribble::flip_evicted(offset).expect("a round"),
            (1, true),
            "offset {offset}"
        );
    }
}
