//! Figure 3 as printed: blocks, sums and parity after every kind of change, by two threads, and after a stray write.

use super::*;
use crate::undo::UndoLog;
use crate::update::by_hand as update;
use keepfs_codes::identity::Group;
use keepfs_codes::{Protection, crc64};

const CODES: [Protection; 2] = [Protection::Evenodd64, Protection::Evenodd256];

fn arena(guard: Guard, code: Protection) -> Arena {
    let arena = Arena::protected(2, guard, false, code).expect("arena");
    for frame in 0..2 {
        arena.fill(frame, &[0; PAGE], crc64::of_zeros());
    }
    arena
}

#[test]
fn only_mprotect_with_the_codes_of_the_paper_is_printed() {
    for code in CODES {
        assert!(arena(Guard::Mprotect, code).is_printed());
        assert!(!arena(Guard::Alias, code).is_printed());
        assert!(!arena(Guard::Off, code).is_printed());
    }
    assert!(!arena(Guard::Mprotect, Protection::Pcrc).is_printed());
}

#[test]
fn every_kind_of_change_leaves_frames_that_verify() {
    for code in CODES {
        let arena = arena(Guard::Mprotect, code);
        let undo = UndoLog::new(Guard::Mprotect, false).expect("undo");
        let mut slot = undo.open();
        let group = (Group::Bitmap, 1);
        // Within a block, over the border of two, over many.
        for (at, len) in [(40, 8), (250, 16), (1000, 900)] {
            let new: Vec<u8> = (0..len).map(|i| (i * 7 + at) as u8).collect();
            update::put(&arena, &mut slot, group, at, &new).expect("put");
        }
        update::flip(&arena, &mut slot, 1, 3000, 0x30, false).expect("flip");
        let mut copy = [0; PAGE];
        arena.verified_copy(1, &mut copy).expect("changed and sound");
        assert_eq!(copy[3000], 0x30);
        assert_eq!(copy[1899], (899 * 7 + 1000) as u8);
        assert!(update::take_all_back(&arena, &mut slot).is_empty());
        arena.verified_copy(1, &mut copy).expect("taken back and sound");
        assert_eq!(copy, [0; PAGE]);
    }
}

#[test]
fn two_writers_of_one_block_lose_nothing() {
    for code in CODES {
        let arena = arena(Guard::Mprotect, code);
        let undo = UndoLog::new(Guard::Mprotect, false).expect("undo");
        std::thread::scope(|scope| {
            for byte in [32, 40] {
                let (arena, undo) = (&arena, &undo);
                scope.spawn(move || {
                    for i in 0..1500u64 {
                        let mut slot = undo.open();
                        let new = (i + 1).to_le_bytes();
                        update::put(arena, &mut slot, (Group::Bitmap, 0), byte, &new).expect("put");
                    }
                });
            }
        });
        let mut copy = [0; PAGE];
        arena.verified_copy(0, &mut copy).expect("sound");
        assert_eq!(copy[32..40], copy[40..48]);
    }
}

/// F-2: what figure 3 launders into the parity the sum still tells.
#[test]
fn a_stray_write_in_a_block_is_told_although_its_block_was_encoded_anew() {
    for code in CODES {
        let arena = arena(Guard::Mprotect, code);
        let stray = arena.frames.opened(PAGE + 100, 8);
        arena.frames.store_opened(PAGE + 100, &[9; 8]);
        drop(stray);
        assert!(arena.write_blocks(1, 96, &[1, 2, 3, 4], true), "the block checks");
        let mut copy = [0; PAGE];
        arena.verified_copy(1, &mut copy).expect_err("the sum does not fit");
    }
}
