//! Which slot a transaction gets.

use super::*;

/// A thread goes on in the slot that it had last, whatever others have freed meanwhile; all slots can be had.
#[test]
fn a_thread_keeps_its_slot() {
    let log = UndoLog::new(Guard::Off, false).expect("slots");
    let first = log.open();
    let own = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let had = log.open().slot;
            drop(first);
            (0..5).all(|_| log.open().slot == had).then_some(had)
        });
        other.join().expect("no panic")
    });
    assert_eq!(own, Some(1), "slot 0 is free, and another thread's");
    let all: Vec<UndoSlot<'_>> = (0..SLOTS).map(|_| log.open()).collect();
    let mut slots: Vec<usize> = all.iter().map(|slot| slot.slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..SLOTS).collect::<Vec<_>>());
}
