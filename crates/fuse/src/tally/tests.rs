//! What is counted comes back, from all threads, and there is a place for every operation.

use super::*;
use std::thread;

const US: Duration = Duration::from_micros(1);

#[test]
fn every_operation_has_a_place() {
    assert!(Opcode::ALL.iter().all(|op| (*op as usize) < OPS));
}

#[test]
fn only_what_was_asked_for_is_told() {
    let tally = Tally::default();
    assert_eq!(tally.all(), []);
    tally.handled(Opcode::Open, None, 3 * US);
    tally.handled(Opcode::Open, Some(20 * US), 4 * US);
    tally.replied(Opcode::Open, 2 * US);
    let open = OpTimes {
        op: Opcode::Open,
        requests: 2,
        handed_over: 1,
        waited: 20 * US,
        handled: 7 * US,
        replied: 2 * US,
    };
    assert_eq!(tally.all(), [open]);
}

#[test]
fn threads_of_all_groups_are_summed() {
    let tally = Tally::default();
    thread::scope(|scope| {
        for _ in 0..2 * GROUPS {
            scope.spawn(|| (0..100).for_each(|_| tally.handled(Opcode::Write, None, US)));
        }
    });
    let all = tally.all();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].requests, all[0].handled), (1600, 1600 * US));
}
