//! Entries are read back in order, swaps exchange, full halves swap by themselves, scribbles are seen (S-12.2 to S-12.6).

use super::*;
use keepfs_format::oplog::{Action, Operation, TXN_HEAD};

fn oplog() -> OpLog {
    OpLog::new(Guard::Off, false).expect("memory")
}

fn operation(object: u64, end: u64) -> Operation<'static> {
    Operation {
        object,
        action: Action::Fallocate { end },
    }
}

/// A transaction on `object`, which was `byte` all over before.
/// The earlier state of an object is this byte all over.
fn keep(draft: &mut Draft, object: u64, byte: u8) {
    let filled = draft.keep(object, |inode| {
        inode.fill(byte);
        Ok::<_, ()>(())
    });
    filled.expect("kept");
}

fn commit(oplog: &OpLog, seq: u64, object: u64, byte: u8) {
    let mut draft = Draft::new();
    keep(&mut draft, object, byte);
    assert!(draft.push(&operation(object, seq)));
    oplog.append(seq, &mut draft).publish();
}

fn seqs(oplog: &OpLog, half: Half) -> Vec<u64> {
    let log = oplog.operations(half).expect("sound");
    log.iter().map(|t| t.seq).collect()
}

/// S-12.1, S-12.4: transactions in order; one state an object, the first.
#[test]
fn what_is_appended_is_read_back() {
    let oplog = oplog();
    for (seq, object) in [(1, 7), (2, 8), (3, 7)] {
        commit(&oplog, seq, object, seq as u8);
    }
    let log = oplog.operations(Half::Live).expect("sound");
    let first: Vec<_> = log.iter().map(|t| (t.seq, t.operations().next())).collect();
    let expected = [(1, 7), (2, 8), (3, 7)].map(|(seq, object)| (seq, Some(operation(object, seq))));
    assert_eq!(first, expected);
    let states = oplog.states(Half::Live).expect("sound");
    let found: Vec<_> = states.iter().map(|s| (s.object, s.seq, s.inode.body)).collect();
    assert_eq!(found, [(7, 1, 1), (8, 2, 2)]);
    assert!(seqs(&oplog, Half::Previous).is_empty());
}

/// O-2: what was not published does not count.
#[test]
fn what_did_not_commit_is_not_there() {
    let oplog = oplog();
    commit(&oplog, 1, 7, 0);
    let mut draft = Draft::new();
    assert!(draft.push(&operation(7, 2)));
    drop(oplog.append(2, &mut draft));
    assert_eq!(seqs(&oplog, Half::Live), [1]);
    commit(&oplog, 3, 7, 0);
    assert_eq!(seqs(&oplog, Half::Live), [1, 3]);
}

/// S-12.6: a swap leaves the past in the previous half, and objects get a new state.
#[test]
fn a_swap_exchanges_the_halves() {
    let oplog = oplog();
    commit(&oplog, 1, 7, 1);
    oplog.swap();
    commit(&oplog, 2, 7, 2);
    assert_eq!(seqs(&oplog, Half::Previous), [1]);
    assert_eq!(seqs(&oplog, Half::Live), [2]);
    assert_eq!(oplog.states(Half::Live).expect("sound")[0].inode.body, 2);
    oplog.swap();
    assert_eq!(seqs(&oplog, Half::Previous), [2]);
    assert!(oplog.states(Half::Live).expect("sound").is_empty());
}

/// S-12.6: a full half swaps by itself, whichever of the two logs is full.
#[test]
fn a_full_half_swaps_by_itself() {
    let states = oplog();
    for object in 0..STATES_HALF as u64 + 1 {
        commit(&states, object + 1, object, 0);
    }
    assert_eq!(states.forced_swaps(), 1);
    assert_eq!(seqs(&states, Half::Live), [STATES_HALF as u64 + 1]);
    assert_eq!(seqs(&states, Half::Previous).len(), STATES_HALF);

    let log = oplog();
    let mut seq = 0;
    while log.forced_swaps() == 0 {
        seq += 1;
        commit(&log, seq, 1, 0);
    }
    assert_eq!(seqs(&log, Half::Live), [seq]);
    assert_eq!(log.states(Half::Live).expect("sound").len(), 1);
}

/// S-12.6: a transaction longer than a half is left out with all before it.
#[test]
fn a_transaction_longer_than_a_half_is_left_out() {
    let oplog = oplog();
    commit(&oplog, 1, 7, 0);
    let (mut draft, value) = (Draft::new(), vec![1; LOG_HALF]);
    let action = Action::Write {
        offset: 0,
        len: 0,
        bytes: &value,
    };
    assert!(draft.push(&Operation { object: 7, action }));
    oplog.append(2, &mut draft).publish();
    assert!(seqs(&oplog, Half::Live).is_empty());
    assert!(seqs(&oplog, Half::Previous).is_empty());
    commit(&oplog, 3, 7, 0);
    assert_eq!(seqs(&oplog, Half::Live), [3]);
}

/// S-12.3, S-12.4: a changed byte anywhere is seen.
#[test]
fn scribbles_are_seen() {
    let oplog = oplog();
    commit(&oplog, 1, 7, 1);
    commit(&oplog, 2, 8, 1);
    let end = oplog.inner.lock().halves[0].end;
    for at in [0, 8, HALF_HEAD, HALF_HEAD + 30, end - 12] {
        oplog.log.xor_u8(at, 4);
        assert!(oplog.operations(Half::Live).is_err(), "log byte {at}");
        oplog.log.xor_u8(at, 4);
    }
    for at in [0, 9, 40, STATE - 1, 2 * STATE - 1] {
        oplog.states.xor_u8(at, 4);
        assert!(oplog.states(Half::Live).is_err(), "states byte {at}");
        oplog.states.xor_u8(at, 4);
    }
    assert_eq!(seqs(&oplog, Half::Live), [1, 2]);
}

/// S-13.16, S-12.6: a transaction whose operations or states were changed before they were appended is left out, with all
/// before it; what follows starts from states of its own.
#[test]
fn what_was_changed_is_left_out() {
    for which in 0..5 {
        let oplog = oplog();
        commit(&oplog, 1, 7, 1);
        oplog.swap();
        commit(&oplog, 2, 7, 2);
        let mut draft = Draft::new();
        keep(&mut draft, 7, 3);
        keep(&mut draft, 8, 3);
        assert!(draft.push(&operation(7, 3)));
        assert!(draft.push(&operation(8, 3)));
        draft.scribble(|bytes, earlier| match which {
            0 => bytes[TXN_HEAD + 9] ^= 1,
            1 => bytes.truncate(bytes.len() - 8),
            2 => earlier[1].1[200] ^= 0x80,
            3 => earlier[0].0 = 9,
            _ => drop(earlier.pop()),
        });
        assert!(oplog.append(3, &mut draft).publish(), "change {which}");
        for half in [Half::Previous, Half::Live] {
            assert!(seqs(&oplog, half).is_empty(), "change {which}");
            assert!(oplog.states(half).expect("sound").is_empty());
        }
        commit(&oplog, 4, 7, 4);
        assert_eq!(seqs(&oplog, Half::Live), [4]);
        assert_eq!(oplog.states(Half::Live).expect("sound")[0].inode.body, 4);
    }
}
