//! Tests of the keyed sum of frames: what the rolling sum does not see, it does (S-15.18).

use super::*;
use crate::arena::UNBOUND;
use crate::undo::UndoLog;
use crate::update::by_hand as update;
use keepfs_codes::identity::Group;
use keepfs_codes::{Verdict, crc64};
use keepfs_memory::Guard;

/// XORed into two words of a frame that follow one another it leaves the CRC-64 as it is: the polynomial itself.
pub(crate) const NEUTRAL: [u64; 2] = [1 << 63, 0x9A6C_9329_AC4B_C9B5];

fn arena(code: Protection) -> Arena {
    let arena = Arena::protected(2, Guard::Off, false, code).expect("arena");
    let bytes: [u8; PAGE] = core::array::from_fn(|i| (i * 7 + i / 256) as u8);
    arena.fill(1, &bytes, crc64::full(&bytes));
    arena
}

/// Past the door.
fn stray(arena: &Arena, at: usize) {
    for (i, xor) in NEUTRAL.into_iter().enumerate() {
        let mut word = [0; 8];
        arena.load_raw(1, at + 8 * i, &mut word);
        arena.copy(1, at + 8 * i, &(u64::from_le_bytes(word) ^ xor).to_le_bytes());
    }
}

fn verifies(arena: &Arena) -> bool {
    arena.verified_copy(1, &mut [0; PAGE]).is_ok()
}

#[test]
fn a_change_that_the_crc_does_not_see_is_seen() {
    for guard in [Guard::Alias, Guard::Off] {
        let arena = arena(Protection::Crc);
        let undo = UndoLog::new(guard, false).expect("undo");
        let mut slot = undo.open();
        assert!(verifies(&arena));
        stray(&arena, 1024);
        let mut copy = [0; PAGE];
        arena.load_raw(1, 0, &mut copy);
        assert_eq!(crc64::full(&copy), arena.sum(1));
        assert!(!verifies(&arena));
        // No change of other bytes takes it away, and the code has nothing to say.
        update::put(&arena, &mut slot, (Group::Bitmap, 1), 2000, b"something").expect("put");
        assert!(!verifies(&arena));
        assert_eq!(arena.hold(1).locate(UNBOUND), Verdict::Uncorrectable);
        // Nor does one that covers it: who knows what was read in between.
        update::put(&arena, &mut slot, (Group::Bitmap, 1), 1024, &[9; 16]).expect("put");
        assert!(!verifies(&arena));
        assert!(update::take_all_back(&arena, &mut slot).is_empty());
        stray(&arena, 1024);
        assert!(verifies(&arena));
    }
}

#[test]
fn every_way_of_the_door_is_followed() {
    let arena = arena(Protection::Pcrc);
    let undo = UndoLog::new(Guard::Off, false).expect("undo");
    let mut slot = undo.open();
    update::put(&arena, &mut slot, (Group::Bitmap, 1), 33, &[5; 1000]).expect("put");
    assert!(verifies(&arena));
    let mut byte = [0];
    arena.load_raw(1, 77, &mut byte);
    let from = byte[0] & 1 != 0;
    update::flip(&arena, &mut slot, 1, 77, 1, from).expect("flip");
    assert!(verifies(&arena));
    assert!(update::take_all_back(&arena, &mut slot).is_empty());
    assert!(verifies(&arena));
}

#[test]
fn keys_that_were_changed_accuse_nobody() {
    let mut arena = arena(Protection::Crc);
    stray(&arena, 512);
    assert!(!verifies(&arena));
    arena.keys.as_mut().expect("keys").keys.spoil();
    assert!(verifies(&arena), "the CRC is left, and it agrees");
    arena.copy(1, 100, &[0xEE; 3]);
    assert!(!verifies(&arena));
}

#[test]
fn without_protection_there_are_no_keys() {
    assert!(arena(Protection::Off).keys.is_none());
}
