//! Slots of requests over several lives (S-16.2, S-16.3, S-16.17).

use super::slots::State;
use super::*;
use keepfs_vault::undo::UndoLog;

const GUARD: Guard = Guard::Off;
/// Whose requests these are.
const SEAT: u32 = 3;

/// Requests and the undo slots that they name.
struct Life {
    requests: Requests,
    undo: UndoLog,
}

impl Life {
    fn new() -> Life {
        Life {
            requests: Requests::new(GUARD, false, 7).expect("slots"),
            undo: UndoLog::lasting(GUARD, false).expect("undo"),
        }
    }

    /// Somebody begins a request.
    fn begin(&self, unique: u64) -> Running {
        self.requests.begin(unique, SEAT).expect("a slot")
    }

    /// What the next life finds when transactions up to `last` are recovered.
    fn left(&self, last: u64) -> Vec<Met> {
        let memory = self.requests.descriptor().expect("it lasts");
        let left = Left::adopt(memory.try_clone_to_owned().expect("again"), GUARD, Some(7)).expect("slots");
        let (mut met, damaged) = left.met(&self.undo, last);
        assert_eq!(damaged, []);
        met.sort_by_key(|met| met.unique);
        met
    }

    /// The next life.
    fn next(&self, last: u64) -> Life {
        let next = Life::new();
        next.requests.carry(self.left(last));
        next
    }
}

fn begun(unique: u64, attempts: u32) -> Met {
    Met {
        unique,
        done: false,
        ino: 0,
        raised: false,
        attempts,
    }
}

fn done(unique: u64, ino: u64, raised: bool) -> Met {
    Met {
        done: true,
        ino,
        raised,
        ..begun(unique, 1)
    }
}

#[test]
fn states_are_far_apart() {
    let states = [State::Free, State::Begun, State::Named, State::Done, State::Raised];
    for (i, a) in states.iter().enumerate() {
        for b in &states[i + 1..] {
            let distance = (a.constant() ^ b.constant()).count_ones();
            assert!(distance >= 8, "{a:?} and {b:?}: {distance}");
        }
    }
}

#[test]
fn a_request_is_done_with_its_transaction() {
    let life = Life::new();
    assert_eq!(life.left(9), []);
    let running = life.begin(100);
    assert_eq!(life.left(9), [begun(100, 1)]);
    let slot = life.undo.open();
    life.requests.name(running, slot.place(), 55);
    assert_eq!(life.left(9), [begun(100, 1)]);
    slot.commit(5);
    assert_eq!(life.left(9), [done(100, 55, false)]);
    assert_eq!(life.left(4), [begun(100, 1)], "the transaction is lost");
    life.requests.done(running, 5);
    drop(slot);
    assert_eq!(life.left(9), [done(100, 55, false)]);
    assert_eq!(life.left(4), [begun(100, 1)], "the transaction is lost");
    life.requests.raised(running);
    assert_eq!(life.left(9), [done(100, 55, true)]);
    let running = life.begin(102);
    assert_eq!(life.left(9), [begun(102, 1)]);
    life.requests.raised(running);
    assert_eq!(life.left(9), [begun(102, 1)], "a lookup alone");
}

#[test]
fn another_generation_of_an_undo_slot_proves_nothing() {
    let life = Life::new();
    let running = life.begin(100);
    let slot = life.undo.open();
    life.requests.name(running, slot.place(), 0);
    drop(slot);
    let slot = life.undo.open();
    slot.commit(5);
    assert_eq!(life.left(9), [begun(100, 1)]);
}

#[test]
fn requests_are_carried_until_they_are_met() {
    let first = Life::new();
    let running = first.begin(100);
    let slot = first.undo.open();
    first.requests.name(running, slot.place(), 55);
    slot.commit(5);
    let second = first.next(5);
    let third = second.next(0);
    assert_eq!(third.left(0), [done(100, 55, false)], "nobody has asked for it");
    assert_eq!(third.requests.again(102, SEAT), None);
    assert_eq!(third.requests.again(100, SEAT), Some(Again::Done(Some(55))));
    assert_eq!(third.requests.again(100, SEAT), None, "it is this seat's now");
    assert_eq!(third.left(0), [done(100, 55, false)], "until its reply is sent");
    third.begin(104);
    assert_eq!(third.left(0), [begun(104, 1)]);
}

/// S-16.2: a slot counts the lives that ended in it.
#[test]
fn lives_are_counted() {
    let mut life = Life::new();
    for attempts in 1..4 {
        let again = (attempts > 1).then_some(Again::Begun(attempts - 1));
        assert_eq!(life.requests.again(100, SEAT), again);
        life.begin(100);
        assert_eq!(life.left(0), [begun(100, attempts)]);
        life = life.next(0);
    }
    let idle = life.next(0);
    assert_eq!(
        idle.left(0),
        [begun(100, 3)],
        "a life that did not begin it does not count"
    );
}

#[test]
fn the_newest_are_carried() {
    let life = Life::new();
    life.requests.carry((1..=3000).map(|unique| begun(unique, 1)).collect());
    let met = life.left(0);
    assert_eq!((met.len(), met[0].unique), (SEATS, 3001 - SEATS as u64));
}

#[test]
fn damage_is_told_and_another_life_refused() {
    let life = Life::new();
    life.requests.begin(100, 0);
    for at in [0, 8, 16] {
        let slot = SLOTS_AT;
        life.requests.region.xor_u8(slot + at + 4, 1);
        let memory = life.requests.descriptor().expect("it lasts");
        let left = Left::adopt(memory.try_clone_to_owned().expect("again"), GUARD, Some(7)).expect("slots");
        assert_eq!(left.met(&life.undo, 0), (Vec::new(), vec![0]), "byte {at}");
        life.requests.region.xor_u8(slot + at + 4, 1);
    }
    let memory = life.requests.descriptor().expect("it lasts");
    assert!(Left::adopt(memory.try_clone_to_owned().expect("again"), GUARD, Some(8)).is_err());
}

/// Where the first slot lies.
const SLOTS_AT: usize = 4096;

/// S-16.2: each seat has a slot, but those behind the last, of which nothing is kept.
#[test]
fn seats_do_not_share_a_slot() {
    let life = Life::new();
    for seat in 0..SEATS as u32 {
        let unique = 1 + u64::from(seat);
        assert!(life.requests.begin(unique, seat).is_some());
    }
    assert!(life.requests.begin(1 + SLOTS as u64, SEATS as u32).is_none());
    let next = life.next(0);
    assert_eq!(next.left(0).len(), SEATS);
    assert_eq!(next.requests.again(1, SEATS as u32), Some(Again::Begun(1)));
}

/// S-16.2, S-14.10: no stray write into page 0 makes a request be executed twice, and it is told.
#[test]
fn one_stray_write_into_page_0_costs_nothing() {
    let life = Life::new();
    let running = life.begin(100);
    let slot = life.undo.open();
    life.requests.name(running, slot.place(), 55);
    slot.commit(5);
    let adopt = |incarnation| {
        let memory = life.requests.descriptor().expect("it lasts");
        Left::adopt(memory.try_clone_to_owned().expect("again"), GUARD, incarnation)
    };
    let region = &life.requests.region;
    let mut told = 0;
    for (at, len) in (0..40).chain(1990..2090).flat_map(|at| [(at, 1), (at, 8), (at, 64)]) {
        let mut before = [0; 64];
        region.load(at, &mut before);
        region.store(at, &[0x5A; 64][..len]);
        let left = adopt(Some(7)).expect("slots");
        assert_eq!(left.met(&life.undo, 5), (vec![done(100, 55, false)], Vec::new()));
        told += usize::from(left.header_changed);
        region.store(at, &before);
    }
    assert!(told > 100, "{told}");
    region.store(0, &[0; 8]);
    region.store(2048, &[0; 8]);
    assert!(adopt(Some(7)).is_err() && adopt(None).is_err());
}

/// S-16.2: slots of a server that wrote the header once, and of one whose ring nobody knows.
#[test]
fn slots_of_a_server_before_are_followed() {
    let life = Life::new();
    life.begin(100);
    life.requests.region.store(2048, &[0; 2048]);
    for incarnation in [Some(7), None] {
        let memory = life.requests.descriptor().expect("it lasts");
        let memory = memory.try_clone_to_owned().expect("again");
        let left = Left::adopt(memory, GUARD, incarnation).expect("slots");
        assert!(!left.header_changed);
        assert_eq!(left.met(&life.undo, 0).0, [begun(100, 1)]);
    }
}
