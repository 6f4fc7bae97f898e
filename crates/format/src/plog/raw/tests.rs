//! Raw records tell what the decoded ones do (S-8.5).

use crate::id::{MetaId, Space};
use crate::plog::{Record, Run, decode, raw};

fn samples() -> Vec<Record> {
    let run = Run { start: 77, count: 3 };
    vec![
        Record::Update {
            id: MetaId(5),
            generation: 9,
            ranges: vec![(64, vec![1, 2, 3]), (4090, vec![4; 6])],
        },
        Record::Alloc {
            space: Space::Pages,
            run,
        },
        Record::Death {
            id: MetaId(6),
            generation: 1,
        },
        Record::MapEntry {
            ino: 8,
            index: 10,
            page: 100,
            count: 2,
            version: 1,
            last_len: 4096,
            crcs: vec![],
        },
        Record::Tail {
            ino: 8,
            index: 12,
            version: 1,
            base: 0,
            base_crc: 0,
            offset: 7,
            bytes: vec![9; 11],
        },
        Record::Zero {
            ino: 8,
            index: 13,
            version: 1,
            base: 0,
            base_crc: 0,
            offset: 7,
            len: 11,
        },
        Record::Lost { ino: 8, index: 14 },
    ]
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut payload = Vec::new();
    records.iter().for_each(|record| record.encode(&mut payload));
    payload
}

/// S-8.5: each record is found whole, and tells of itself what was encoded.
#[test]
fn raw_records_are_those_that_were_encoded() {
    let records = samples();
    let payload = encoded(&records);
    let found: Vec<_> = raw(&payload).map(|r| r.expect("whole")).collect();
    assert_eq!(found.len(), records.len());
    for (found, record) in found.iter().zip(&records) {
        assert_eq!(found.whole, encoded(core::slice::from_ref(record)));
        assert_eq!(decode(found.whole).as_deref(), Ok(core::slice::from_ref(record)));
        assert_eq!(found.is_update(), matches!(record, Record::Update { .. }));
    }
    let update = found[0].update().expect("an update");
    assert_eq!((update.id, update.generation, update.size()), (MetaId(5), 9, (2, 9)));
    let ranges: Vec<_> = update.ranges().collect();
    assert_eq!(ranges, [(64, &[1, 2, 3][..]), (4090, &[4; 6][..])]);
    assert_eq!(found[2].death(), Some(MetaId(6)));
    assert_eq!(found[3].map_entry(), Some((8, 10, 2)));
    assert_eq!((found[4].staged(), found[4].is_tail()), (Some((8, 12)), true));
    assert_eq!((found[5].staged(), found[5].is_tail()), (Some((8, 13)), false));
    assert!(found[1].death().is_none() && found[1].staged().is_none() && found[1].update().is_none());
}

/// A payload that was cut, and an update whose ranges are not inside a metablock or not all there, are told.
#[test]
fn what_is_cut_is_told() {
    let payload = encoded(&samples());
    for end in 1..payload.len() {
        let all: Result<Vec<_>, _> = raw(&payload[..end]).collect();
        let whole = raw(&payload).scan(0, |at, r| {
            *at += r.expect("whole").whole.len();
            Some(*at)
        });
        assert_eq!(all.is_ok(), whole.into_iter().any(|at| at == end), "{end}");
    }
    let update = encoded(&samples()[..1]);
    let found = |bytes: &[u8]| raw(bytes).next().and_then(|r| r.ok()?.update()).is_some();
    assert!(found(&update));
    // Behind the head: id, generation, count, then {offset, length}.
    for (at, value) in [(18, 0xff), (19, 0x1f), (20, 4), (16, 3), (23, 0x10)] {
        let mut wrong = update.clone();
        wrong[at] = value;
        let fits = at == 18;
        assert_eq!(found(&wrong), fits, "byte {at}");
    }
}
