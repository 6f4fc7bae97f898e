//! What is told of frames that a server was filling when it died.

use super::*;
use keepfs_codes::Protection;
use keepfs_memory::Guard;
use keepfs_vault::update::by_hand as update;

/// A frame that was being filled is no damage, whoever comes to it first or after another server that died (S-16.4).
#[test]
fn a_frame_that_was_being_filled_is_never_damage() {
    let arena = Some(Arena::protected(4, Guard::Off, false, Protection::Crc).expect("arena"));
    let undo = Some(UndoLog::new(Guard::Off, false).expect("undo"));
    let frames = arena.as_ref().expect("arena");
    let bytes = [7; PAGE];
    for frame in 0..2 {
        frames.fill(frame, &bytes, keepfs_codes::crc64::full(&bytes));
    }
    // Of the second one a part was replaced, of the third one nothing was there yet.
    std::thread::scope(|scope| scope.spawn(|| update::enter(frames, 1)).join()).expect("the first");
    frames.stray(1, 0, &[9; 100]);
    std::thread::scope(|scope| scope.spawn(|| update::enter(frames, 2)).join()).expect("the second");
    for _life in 0..3 {
        let half_done = roll_back(&arena, &undo, &mut Resumed::default());
        let told = (0..4).filter(|frame| frames.is_filled(*frame) && !half_done.contains(frame));
        assert_eq!(told.collect::<Vec<_>>(), [0], "whole, and looked at");
    }
}
