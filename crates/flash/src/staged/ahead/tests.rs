//! What is made before the commit is what applying the records makes, and nothing of it is lost or left (S-14.6, S-14.7).

use super::super::tests::{contents, device_page, free_slots, over, rebuilt, segment, start_with, tail};
use super::super::{StagedDamage, Under};
use super::*;
use crate::redo::TxnRedo;
use crate::segment::{SMALL, SPARE_SLOTS};
use keepfs_format::PAGE;
use keepfs_memory::failpoint;
use std::sync::Arc;

/// Whole slots: room for 16 whole pages.
const SLOTS: usize = 32 + SPARE_SLOTS;

fn start() -> (Arc<Segment>, Table) {
    start_with(SLOTS)
}

/// Stores of a commit at most: the 56 bytes of a head, its CRC, and that of the head that it replaces.
const HEAD_STORES: u64 = 58;

/// Bases of the pages that a record stages over the device's.
fn bases(record: &Record) -> Bases {
    let mut bases = Bases::default();
    if let Record::Tail { ino, index, base, .. } = record
        && *base != 0
    {
        bases.insert((*ino, *index), device_page(*base));
    }
    bases
}

/// As a transaction does until its commit.
fn made(table: &mut Table, record: &Record) -> Coming {
    let records = core::slice::from_ref(record);
    let mut coming = table.expect(records).expect("room");
    coming
        .make(table.slots.segment(), records, &bases(record))
        .expect("its base is right");
    coming
}

/// As a commit does. Whether what was made ahead was taken.
fn commit(table: &mut Table, mut coming: Coming, record: &Record) -> bool {
    let taken = table.apply_ahead(&mut coming, core::slice::from_ref(record));
    if !taken {
        apply(table, record);
    }
    table.give_up(coming);
    taken
}

fn apply(table: &mut Table, record: &Record) {
    let mut bases = bases(record);
    table.apply(record, &mut Under::Bases(&mut bases)).expect("room");
}

fn zero(ino: u64, index: u64, offset: u16, len: u16) -> Record {
    Record::Zero {
        ino,
        index,
        version: 9,
        base: 0,
        base_crc: 0,
        offset,
        len,
    }
}

/// New and changed pages, small and whole, with and without a page of the device under them.
fn transactions() -> Vec<Record> {
    vec![
        tail(1, 0, 0, &[1; 1000]),
        tail(1, 0, 1000, &[2; 1000]),
        tail(5, 0, 900, b"behind what was there"),
        over(1, 1, 11, 100, b"over a page of the device"),
        tail(1, 1, 90, b"and again"),
        zero(1, 0, SMALL as u16, 3000),
        zero(2, 7, 5, 17),
        tail(8, 2, 0, &[9; PAGE]),
    ]
}

#[test]
fn ahead_is_as_applied() {
    let ((_, mut ahead), (_, mut applied)) = (start(), start());
    for record in transactions() {
        let coming = made(&mut ahead, &record);
        assert!(commit(&mut ahead, coming, &record), "{record:?}");
        apply(&mut applied, &record);
        assert_eq!(ahead.pages, applied.pages, "{record:?}");
        assert!(contents(&ahead) == contents(&applied), "{record:?}");
        assert_eq!((ahead.promised, ahead.quarters), (applied.promised, applied.quarters));
        assert_eq!(ahead.weight().pages(), ahead.quarters.div_ceil(4));
        assert_eq!(ahead.slots.free_list(), applied.slots.free_list(), "{record:?}");
    }
}

/// S-14.8: before the commit nothing has changed, behind it the whole transaction has, whatever store the kill hits.
#[test]
fn a_kill_at_every_store_leaves_all_or_nothing() {
    for (at, record) in transactions().iter().enumerate() {
        let before = |table: &mut Table| transactions()[..at].iter().for_each(|record| apply(table, record));
        let mut whole = start().1;
        before(&mut whole);
        let old = contents(&whole);
        apply(&mut whole, record);
        let redo = [TxnRedo {
            seq: 9,
            records: vec![record.clone()],
        }];
        let halfway = |stores| {
            let (segment, mut table) = start();
            before(&mut table);
            let coming = failpoint::run(stores, || made(&mut table, record));
            (segment, table, coming)
        };
        for stores in (0..).step_by(61) {
            let (segment, _, coming) = halfway(stores);
            let again = rebuilt(&segment, &[]);
            assert!(contents(&again) == old, "{record:?}, {stores} stores before the commit");
            assert_eq!(free_slots(&again).len(), 3 * SLOTS - again.len());
            if coming.is_ok() {
                break;
            }
        }
        for stores in 0..=HEAD_STORES {
            let (segment, mut table, coming) = halfway(u64::MAX);
            let coming = coming.expect("whole");
            let cut = failpoint::run(stores, || commit(&mut table, coming, record));
            assert!(cut.is_ok() || stores < HEAD_STORES, "{record:?}");
            let again = rebuilt(&segment, &redo);
            assert!(contents(&again) == contents(&whole), "{record:?}, {stores} stores");
            assert_eq!(free_slots(&again).len(), 3 * SLOTS - whole.len());
        }
    }
}

/// S-14.6: damage of what is replaced is found, noted when the transaction is applied, and costs no slot.
#[test]
fn a_damaged_page_is_not_made_ahead() {
    let (segment, mut table) = start();
    let free = free_slots(&table).len();
    let place = table.place(5, 0).expect("staged");
    segment.region().store(place + 7, &[0x40]);
    let record = tail(5, 0, 3, b"more");
    let coming = made(&mut table, &record);
    assert!(!commit(&mut table, coming, &record));
    let told = table.read(5, 0, &mut [0; PAGE]);
    assert_eq!(told, Err(StagedDamage { ino: 5, index: 0 }));
    assert_eq!(free_slots(&table).len(), free);
    assert_eq!(table.slots.free_list().len(), free);
}

/// S-14.7: a transaction that is rolled back gives everything back; one that finds no slot is told.
#[test]
fn what_is_not_used_goes_back() {
    let (_, mut table) = start();
    let free = table.slots.free_list();
    for record in transactions() {
        let coming = made(&mut table, &record);
        table.give_up(coming);
        assert_eq!((table.slots.free_list(), table.coming), (free.clone(), 0));
    }
    let mut full = Table::new(segment(2 + SPARE_SLOTS));
    let first = full.expect(&[tail(1, 0, 0, b"x")]).expect("room for one page");
    let more = [tail(1, 1, 0, b"x")];
    assert_eq!(full.expect(&more).err(), Some(Room { slots: 1, quarters: 4 }));
    full.give_up(first);
    assert!(full.expect(&more).is_ok());
}

/// A page that was replaced since it was looked up is not read.
#[test]
fn an_outdated_place_is_told() {
    let (segment, mut table) = start();
    let place = table.where_is(5, 0).expect("staged");
    let mut page = [0; PAGE];
    assert!(place.read(&segment, &mut page) && page[0] == 1);
    for _ in 0..9 * SLOTS {
        apply(&mut table, &tail(5, 0, 0, b"new"));
        assert!(!place.read(&segment, &mut page));
    }
}
