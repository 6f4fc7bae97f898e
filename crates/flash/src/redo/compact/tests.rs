//! What a group has of its transactions (S-8.7).

use super::*;
use keepfs_format::plog::{Record, Run};

fn update(id: u64, generation: u32, ranges: &[(u16, &[u8])]) -> Record {
    Record::Update {
        id: MetaId(id),
        generation,
        ranges: ranges.iter().map(|(offset, bytes)| (*offset, bytes.to_vec())).collect(),
    }
}

fn death(id: u64, generation: u32) -> Record {
    Record::Death {
        id: MetaId(id),
        generation,
    }
}

fn tail(index: u64) -> Record {
    Record::Tail {
        ino: 9,
        index,
        version: 1,
        base: 0,
        base_crc: 0,
        offset: 5,
        bytes: vec![index as u8; 3],
    }
}

fn map_entry(index: u64, count: u32) -> Record {
    Record::MapEntry {
        ino: 9,
        index,
        page: 0,
        count,
        version: 2,
        last_len: 0,
        crcs: Vec::new(),
    }
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.encode(&mut bytes));
    bytes
}

/// What is left of these records, with memory that was used before.
fn left(records: &[Record], work: &mut Work) -> Vec<Record> {
    let bytes = encoded(records);
    let group = compact(7, &bytes, records.len() as u32, vec![3; 50], work).expect("they are records");
    let left = plog::decode(&group.payload).expect("records");
    let updates = left.iter().filter_map(|record| match record {
        Record::Update { id, generation, .. } => Some((*id, *generation)),
        _ => None,
    });
    assert_eq!(group.touched, updates.collect::<Vec<_>>());
    left
}

#[test]
fn ranges_of_a_metablock_are_told_once_the_latest_bytes_of_each() {
    let mut work = Work::default();
    let only = update(2, 1, &[(100, b"ab"), (102, b"cd")]);
    let records = [
        update(1, 1, &[(64, b"abcd"), (200, b"x")]),
        only.clone(),
        update(1, 1, &[(66, b"YZ12")]),
        update(1, 1, &[(64, b"!"), (4000, b"end")]),
        update(3, 1, &[(300, b"x")]),
        update(3, 1, &[(302, b"y")]),
    ];
    let merged = update(1, 1, &[(64, b"!bYZ12"), (200, b"x"), (4000, b"end")]);
    let other = update(3, 1, &[(300, b"x"), (302, b"y")]);
    // What one transaction alone stored is passed on as it is.
    assert_eq!(left(&records, &mut work), [merged, only.clone(), other]);
    assert_eq!(left(core::slice::from_ref(&only), &mut work), [only]);
}

#[test]
fn updates_of_what_died_are_void() {
    let mut work = Work::default();
    let reborn = update(1, 3, &[(64, b"new")]);
    let records = [
        update(1, 2, &[(64, b"old")]),
        update(2, 1, &[(64, b"stays")]),
        death(1, 2),
        reborn.clone(),
        update(3, 1, &[(70, b"old")]),
        death(3, 1),
    ];
    let expected = [death(1, 2), death(3, 1), records[1].clone(), reborn.clone()];
    assert_eq!(left(&records, &mut work), expected);
    // A generation whose predecessor's death is not told in this group takes its place, too.
    let newer = [update(1, 2, &[(64, b"old")]), reborn.clone()];
    assert_eq!(left(&newer, &mut work), [reborn]);
}

#[test]
fn tails_that_a_later_map_entry_covers_are_void() {
    let mut work = Work::default();
    let records = [tail(3), tail(4), map_entry(2, 2), tail(3), tail(2)];
    assert_eq!(left(&records, &mut work), [tail(4), map_entry(2, 2), tail(3), tail(2)]);
    assert_eq!(left(&[tail(3), tail(4)], &mut work), [tail(3), tail(4)]);
}

#[test]
fn what_are_no_records_is_told() {
    let mut work = Work::default();
    let records = [tail(3), update(1, 1, &[(64, b"abc")])];
    let bytes = encoded(&records);
    let run = |bytes: &[u8], count, work: &mut Work| compact(1, bytes, count, Vec::new(), work).is_some();
    assert!(run(&bytes, 2, &mut work));
    assert!(!run(&bytes, 3, &mut work));
    assert!(!run(&bytes[..bytes.len() - 1], 2, &mut work));
    let beyond = encoded(&[update(1, 1, &[(4094, b"abc")])]);
    assert!(!run(&beyond, 1, &mut work));
}

/// P-9: what a long group needed is not kept.
#[test]
fn what_is_kept_is_bounded() {
    let mut work = Work::default();
    let freed = Record::Free {
        space: keepfs_format::Space::Pages,
        run: Run { start: 1, count: 1 },
    };
    let records: Vec<Record> = (0..1000u64)
        .flat_map(|n| [update(n, 1, &[(64, b"abc")]), freed.clone()])
        .collect();
    assert_eq!(left(&records, &mut work).len(), 2000);
    work.shrink_to(100);
    let kept = [work.blocks.capacity(), work.links.capacity(), work.others.capacity()];
    assert_eq!(kept, [100; 3]);
    assert!(work.places.capacity() < 300);
    assert_eq!(left(&records, &mut work).len(), 2000);
}
