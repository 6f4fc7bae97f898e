//! Staged pages follow the records as a plain model does, survive a kill at every store, and tell stray changes
//! (S-14.5 to S-14.8).

use super::slots::Found;
use super::*;
use crate::redo::TxnRedo;
use crate::segment::{SMALL, SPARE_SLOTS, Word};
use keepfs_memory::Guard;
use keepfs_memory::failpoint;
use std::collections::BTreeSet;

const SLOTS: usize = 24;

pub(super) fn segment(slots: usize) -> Arc<Segment> {
    Arc::new(Segment::new(slots, Guard::Off, false, true).expect("segment"))
}

fn adopt(segment: &Segment) -> Arc<Segment> {
    let descriptor = segment.region().descriptor().expect("it lasts");
    let same = descriptor.try_clone_to_owned().expect("descriptor");
    Arc::new(Segment::adopt(same, Guard::Off, false).expect("adopt"))
}

/// What the device has in a page that lies under staged ones.
pub(super) fn device_page(page: u64) -> Box<[u8; PAGE]> {
    let mut bytes = Box::new([0; PAGE]);
    bytes
        .iter_mut()
        .enumerate()
        .for_each(|(i, b)| *b = (i as u64 * page) as u8);
    bytes
}

pub(super) fn tail(ino: u64, index: u64, offset: u16, bytes: &[u8]) -> Record {
    Record::Tail {
        ino,
        index,
        version: bytes.len() as u32,
        base: 0,
        base_crc: 0,
        offset,
        bytes: bytes.to_vec(),
    }
}

pub(super) fn over(ino: u64, index: u64, base: u64, offset: u16, bytes: &[u8]) -> Record {
    Record::Tail {
        ino,
        index,
        version: 1,
        base,
        base_crc: crc32c::of(&device_page(base)[..]),
        offset,
        bytes: bytes.to_vec(),
    }
}

fn mapped(ino: u64, index: u64, count: u32) -> Record {
    Record::MapEntry {
        ino,
        index,
        page: 0,
        count,
        version: 1,
        last_len: 0,
        crcs: Vec::new(),
    }
}

/// As behind a commit: bases are there.
fn follow(table: &mut Table, seq: u64, records: &[Record]) {
    for record in records {
        let mut bases = Bases::default();
        if let Record::Tail { ino, index, base, .. } = record
            && *base != 0
        {
            bases.insert((*ino, *index), device_page(*base));
        }
        table.apply(record, &mut Under::Bases(&mut bases)).expect("room");
    }
    table.slots.segment().set_word(Word::Followed, seq);
}

pub(super) fn contents(table: &Table) -> BTreeMap<Key, Box<[u8; PAGE]>> {
    let page = |key: &Key| {
        let mut page = Box::new([0; PAGE]);
        assert_eq!(table.read(key.0, key.1, &mut page), Ok(true));
        (*key, page)
    };
    table.pages.keys().map(page).collect()
}

pub(super) fn rebuilt(segment: &Segment, redo: &[TxnRedo]) -> Table {
    rebuild(adopt(segment), redo, |page, crc, bytes| {
        *bytes = *device_page(page);
        assert_eq!(crc, crc32c::of(bytes));
        Ok(())
    })
    .expect("sound")
}

pub(super) fn free_slots(table: &Table) -> BTreeSet<u32> {
    let free = |slot: &u32| table.slots.found(*slot) == Found::Free;
    (0..table.slots.segment().slots()).filter(free).collect()
}

/// A transaction of everything that changes staged pages.
fn everything() -> Vec<Record> {
    vec![
        tail(5, 0, 3, b"changed"),
        over(5, 1, 11, 100, b"over a page of the device"),
        tail(5, 1, 90, b"and again"),
        tail(6, 9, 0, b"dropped by its own transaction"),
        mapped(6, 9, 1),
        tail(6, 9, 7, b"and staged anew"),
        Record::Truncate {
            ino: 7,
            size: 2 * PAGE as u64 + 5,
        },
        mapped(8, 0, 3),
        Record::Zero {
            ino: 5,
            index: 0,
            version: 9,
            base: 0,
            base_crc: 0,
            offset: 8,
            len: 4000,
        },
    ]
}

fn start() -> (Arc<Segment>, Table) {
    start_with(SLOTS)
}

/// Five pages are staged in a segment of so many whole slots.
pub(super) fn start_with(slots: usize) -> (Arc<Segment>, Table) {
    let segment = segment(slots);
    let mut table = Table::new(segment.clone());
    let first = vec![
        tail(5, 0, 0, &[1; 900]),
        tail(7, 2, 0, &[2; 900]),
        tail(7, 3, 0, &[3; 900]),
        tail(8, 1, 0, &[4; 900]),
        over(8, 2, 12, 0, &[5; 900]),
    ];
    follow(&mut table, 1, &first);
    (segment, table)
}

/// S-8.8: what the records say is what is read; order of age; promises.
#[test]
fn it_follows_the_records() {
    let (_, mut table) = start();
    assert_eq!((table.len(), table.promised), (5, 4));
    follow(&mut table, 2, &everything());
    assert_eq!((table.of(5), table.of(6), table.of(7)), (vec![0, 1], vec![9], vec![2]));
    assert_eq!((table.promised, table.of(8).len()), (3, 0));
    assert_eq!(table.inodes(9), [5, 7, 6]);
    let all = contents(&table);
    assert_eq!(all[&(5, 0)][..9], [1, 1, 1, b'c', b'h', b'a', b'n', b'g', 0]);
    assert_eq!(all[&(5, 0)][8..PAGE], [0; PAGE - 8]);
    let mut under = device_page(11);
    under[100..125].copy_from_slice(b"over a page of the device");
    under[90..99].copy_from_slice(b"and again");
    assert!(all[&(5, 1)] == under);
    assert_eq!(all[&(6, 9)][..8], [0, 0, 0, 0, 0, 0, 0, b'a']);
    assert_eq!(all[&(7, 2)][..7], [2, 2, 2, 2, 2, 0, 0]);
}

/// S-14.8: the heap's index can be rebuilt, and goes on as the first would.
#[test]
fn a_rebuilt_table_is_the_same() {
    let (segment, mut table) = start();
    follow(&mut table, 2, &everything());
    let mut again = rebuilt(&segment, &[]);
    assert_eq!(again.pages, table.pages);
    assert_eq!((again.promised, again.stamp), (table.promised, table.stamp));
    let sorted = |t: &Table| t.slots.free_list().iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&again), sorted(&table));
    assert!(contents(&again) == contents(&table));
    follow(&mut again, 3, &[tail(5, 0, 0, b"on")]);
    assert_eq!(contents(&again)[&(5, 0)][..3], *b"on\x01");
}

/// S-14.6, S-14.8: whatever store the kill hits, the rebuilt table is that of the whole transaction.
#[test]
fn a_kill_at_every_store_is_finished_by_the_restart() {
    let (_, mut whole) = start();
    follow(&mut whole, 2, &everything());
    let redo = [TxnRedo {
        seq: 2,
        records: everything(),
    }];
    let mut stores = 0;
    loop {
        let (segment, mut table) = start();
        let cut = failpoint::run(stores, || follow(&mut table, 2, &everything()));
        let again = rebuilt(&segment, &redo);
        let pages: Vec<_> = again.pages.keys().collect();
        assert_eq!(pages, whole.pages.keys().collect::<Vec<_>>(), "{stores} stores");
        assert!(contents(&again) == contents(&whole), "{stores} stores");
        assert_eq!(again.promised, whole.promised, "{stores} stores");
        assert_eq!(free_slots(&again).len(), 3 * SLOTS - whole.len(), "{stores} stores");
        assert_eq!(segment.word(Word::Followed), Some(2));
        if cut.is_ok() {
            break;
        }
        // A page is copied byte by byte here: not each byte needs a kill, but each store of a head does.
        let within = stores % (SMALL as u64 + 57);
        stores += if (60..SMALL as u64 - 16).contains(&within) {
            97
        } else {
            1
        };
    }
    assert!(stores > 7 * SMALL as u64 + PAGE as u64);
}

/// S-14.6: a changed byte of a page is told by every reader, also after the page was changed, and never carried over.
#[test]
fn a_changed_byte_of_a_page_is_told() {
    let (segment, mut table) = start();
    let damage = StagedDamage { ino: 5, index: 0 };
    let place = table.place(5, 0).expect("staged");
    segment.region().xor_u8(place + SMALL - 1, 1);
    let mut page = [0; PAGE];
    assert_eq!(table.read(5, 0, &mut page), Err(damage));
    follow(&mut table, 2, &[tail(5, 0, 100, b"a change does not bless it")]);
    assert_eq!(table.read(5, 0, &mut page), Err(damage));
    let carried = table.carry();
    let records = carried.iter().map(|c| c.record(&segment));
    let lost: Vec<_> = records.filter(|r| matches!(r, Record::Lost { .. })).collect();
    assert_eq!(lost, [Record::Lost { ino: 5, index: 0 }]);
    table.carry_done();
    assert_eq!(rebuilt(&segment, &[]).read(5, 0, &mut page), Err(damage));
    follow(&mut table, 3, &[tail(5, 0, 0, &[9; PAGE])]);
    assert_eq!(table.read(5, 0, &mut page), Ok(true));
    assert_eq!(page, [9; PAGE]);
    assert_eq!(table.read(7, 2, &mut page), Ok(true));
}

/// S-14.5: the same of every byte of a head; a restart does not use the segment.
#[test]
fn a_changed_byte_of_a_head_is_told() {
    let (segment, table) = start();
    let slot = table.pages[&(5, 0)].slot;
    for at in 0..crate::segment::HEAD {
        let place = segment.head_place(slot) + at;
        segment.region().xor_u8(place, 0x81);
        let mut page = [0; PAGE];
        assert!(table.read(5, 0, &mut page).is_err(), "byte {at}");
        assert!(rebuild(adopt(&segment), &[], |_, _, _| Ok(())).is_err(), "byte {at}");
        segment.region().xor_u8(place, 0x81);
    }
    rebuilt(&segment, &[]);
}

/// S-14.6: what a checkpoint carries over stays until it is written, whatever happens to the pages.
#[test]
fn carried_pages_stay() {
    let (segment, mut table) = start();
    let carried = table.carry();
    for n in 2..2 + SLOTS as u64 / 2 {
        follow(&mut table, n, &[tail(5, 0, 0, &[n as u8; 10])]);
    }
    follow(&mut table, 99, &[mapped(8, 0, 9)]);
    let records: Vec<_> = carried.iter().map(|c| c.record(&segment)).collect();
    assert_eq!(records.len(), 5);
    assert_eq!(
        records[0],
        Record::Tail {
            ino: 5,
            index: 0,
            version: 900,
            base: 0,
            base_crc: 0,
            offset: 0,
            bytes: vec![1; 900],
        }
    );
    let before = table.slots.free_list().len();
    table.carry_done();
    assert_eq!(table.slots.free_list().len(), before + 3);
    assert_eq!(table.slots.free_list().len(), 3 * SLOTS - table.len());
}

/// S-14.7: room is taken before; slots as there are, pages as the log can carry over. What is staged already needs no
/// page, what a transaction about to commit stages does.
#[test]
fn there_is_only_so_much_room() {
    let mut table = Table::new(segment(2 * 4 + SPARE_SLOTS));
    for index in 0..2 {
        table.apply(&tail(1, index, 0, b"x"), &mut Under::Later).expect("room");
    }
    assert_eq!(
        (table.len(), table.weight().pages()),
        (2, 1),
        "small pages are quarters"
    );
    let one = table.room_for(&[tail(1, 2, 0, b"x"), tail(1, 0, 1, b"x"), mapped(1, 7, 1)]);
    assert_eq!(
        one,
        Room {
            slots: 2,
            quarters: 4 + 3
        }
    );
    assert!(table.take_room(one));
    assert!(table.take_room(one));
    assert!(!table.take_room(one), "four whole pages are all");
    table
        .apply(&tail(1, 0, SMALL as u16, b"x"), &mut Under::Later)
        .expect("room");
    let again = table.room_for(&[tail(1, 0, 1, b"x"), Record::Truncate { ino: 1, size: 5 }]);
    assert_eq!(again, Room { slots: 2, quarters: 0 });
    assert!(table.take_room(again), "what is whole does not grow");
    table.give_room(one);
    assert!(table.take_room(Room { slots: 2, quarters: 4 }));
    let slots = SPARE_SLOTS + 2 * 4 - 1 - 6;
    assert!(!table.take_room(Room {
        slots: slots + 1,
        quarters: 0
    }));
    assert!(table.take_room(Room { slots, quarters: 0 }));
}

/// S-9.4, S-14.5: at replay the bases come last.
#[test]
fn bases_are_put_under_replayed_pages() {
    let mut table = Table::new(segment(SLOTS));
    for record in [
        over(5, 1, 11, 100, b"first"),
        tail(5, 1, 105, b"second"),
        over(6, 0, 12, 0, b"gone"),
        mapped(6, 0, 1),
    ] {
        table.apply(&record, &mut Under::Later).expect("room");
    }
    let read = |page: u64, crc, bytes: &mut [u8; PAGE]| {
        *bytes = *device_page(page);
        assert_eq!((page, crc), (11, crc32c::of(bytes)));
        Ok(())
    };
    table.settle(read).expect("settle");
    let mut right = device_page(11);
    right[100..111].copy_from_slice(b"firstsecond");
    assert!(contents(&table)[&(5, 1)] == right);
    let mut full = Table::new(segment(1));
    full.apply(&tail(1, 1, 0, &[1; PAGE]), &mut Under::Later)
        .expect("one fits");
    assert_eq!(full.apply(&tail(1, 2, 0, &[1; PAGE]), &mut Under::Later), Err(Full));
}

/// S-14.5: a page that is zeros behind its first quarter lies in a small slot while there is one, moves as it grows and
/// shrinks, and what it counts as follows.
#[test]
fn small_pages_take_small_slots() {
    let segment = segment(3);
    let mut table = Table::new(segment.clone());
    let is_small = |table: &Table, index| segment.is_small(table.pages[&(1, index)].slot);
    for index in 0..7 {
        follow(&mut table, index + 1, &[tail(1, index, 0, &[index as u8 + 1; SMALL])]);
    }
    let small = (0..7).filter(|index| is_small(&table, *index)).count();
    assert_eq!((small, table.quarters, table.weight().pages()), (6, 7, 2));
    follow(&mut table, 8, &[tail(1, 0, SMALL as u16, b"x")]);
    assert!(!is_small(&table, 0));
    assert_eq!(table.quarters, 6 + 4);
    assert_eq!(
        rebuilt(&segment, &[]).quarters,
        5 + 4 + 4,
        "a small page in a whole slot"
    );
    follow(&mut table, 9, &[Record::Truncate { ino: 1, size: 9 }]);
    assert!(is_small(&table, 0));
    assert_eq!((table.len(), table.quarters), (1, 1));
    follow(&mut table, 10, &[mapped(1, 0, 1)]);
    assert_eq!((table.quarters, table.slots.free_list().len()), (0, 9));
    let mut page = [0xff; PAGE];
    follow(&mut table, 11, &[tail(1, 0, 3, b"y")]);
    assert_eq!(table.read(1, 0, &mut page), Ok(true));
    assert_eq!(page.iter().map(|b| usize::from(*b)).sum::<usize>(), usize::from(b'y'));
}

/// S-14.6: a page that is lost stays so for whoever comes to this memory.
#[test]
fn a_lost_page_is_lost_for_the_next_life() {
    let segment = segment(SLOTS);
    let mut table = Table::new(segment.clone());
    for record in [tail(5, 0, 0, b"lost"), tail(5, 1, 0, b"not lost")] {
        table.apply(&record, &mut Under::Later).expect("room");
    }
    assert!(table.lose(5, 0) && !table.lose(5, 0));
    let next = rebuilt(&segment, &[]);
    assert_eq!((next.is_lost(5, 0), next.is_lost(5, 1)), (Some(true), Some(false)));
    assert_eq!(next.all_lost(), [(5, 0)]);
}
