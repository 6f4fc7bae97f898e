//! Two decoders of the log, the engine's and the checker's, over the same bytes (S-8.4, S-8.5).

use super::*;
use keepfs_format::plog;
use keepfs_testkit::ops::Rng;
use std::collections::BTreeSet;

/// Groups that are made.
const GROUPS: u64 = 3000;
/// Changed copies of each.
const CHANGED: u64 = 12;

/// What a decoder makes of a payload: records, or where it stops and why.
type Decoded = Result<Vec<Record>, (usize, &'static str)>;

fn ours(payload: &[u8]) -> Decoded {
    decode(payload).map_err(|wrong| (wrong.at, wrong.what))
}

fn engines(payload: &[u8]) -> Decoded {
    plog::decode(payload).map_err(|wrong| (wrong.at, wrong.what))
}

fn run(rng: &mut Rng, space: Space) -> Run {
    let count = match space {
        Space::Pages => rng.pick(&[1, 1, 2, 7, 32_512]),
        _ => 1,
    };
    Run {
        start: rng.below(1 << 40),
        count,
    }
}

fn bytes(rng: &mut Rng, len: u64) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// Any record that S-8.5 allows.
fn record(rng: &mut Rng) -> Record {
    let id = MetaId(rng.next_u64());
    let (ino, dir, index) = (rng.below(1 << 40), rng.below(1 << 40), rng.below(1 << 51));
    let (generation, version) = (rng.next_u64() as u32, rng.next_u64() as u32);
    let (base, base_crc) = (rng.below(1 << 48), rng.next_u64() as u32);
    let offset = rng.below(4096) as u16;
    let len = rng.below(4097 - u64::from(offset)) as u16;
    let space = rng.pick(&[Space::Pages, Space::InodeNumbers, Space::Orphans]);
    match rng.below(15) {
        0 => {
            let range = |rng: &mut Rng, at: u64| {
                let len = rng.below(300);
                ((at * 512) as u16, bytes(rng, len))
            };
            let count = rng.below(6);
            let ranges = (0..count).map(|at| range(rng, at)).collect();
            Record::Update { id, generation, ranges }
        }
        1 => Record::Birth {
            id,
            generation,
            kind: rng.next_u64() as u8,
            level: rng.next_u64() as u8,
            owner: ino,
        },
        2 => Record::Death { id, generation },
        3 => Record::Alloc {
            space,
            run: run(rng, space),
        },
        4 => Record::Free {
            space,
            run: run(rng, space),
        },
        5 => Record::Ref {
            run: run(rng, Space::Pages),
            delta: rng.next_u64() as i32,
        },
        6 => Record::Create { ino, born: index },
        7 => Record::Link { ino, dir },
        8 => Record::Unlink {
            ino,
            dir,
            nlink: version,
            born: index,
        },
        9 => Record::Truncate { ino, size: index },
        10 => {
            let (page, count) = (rng.pick(&[0, base + 1]), 1 + rng.below(9));
            let is_written = page != 0 && rng.chance(70);
            Record::MapEntry {
                ino,
                index,
                page,
                count: count as u32,
                version,
                last_len: u32::from(len),
                crcs: (0..count)
                    .filter(|_| is_written)
                    .map(|_| rng.next_u64() as u32)
                    .collect(),
            }
        }
        11 => Record::Tail {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            bytes: bytes(rng, len.into()),
        },
        12 => Record::Zero {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            len,
        },
        13 => Record::Lost { ino, index },
        _ => {
            let len = rng.below(40);
            Record::Parity {
                bytes: version,
                crc: ino,
                xor: bytes(rng, len),
            }
        }
    }
}

/// Something about a payload becomes other: bytes, most of them in the first record's head and fields, or its length.
fn change(rng: &mut Rng, payload: &mut Vec<u8>) {
    let len = payload.len() as u64;
    let at = if rng.chance(50) {
        rng.below(len.min(40))
    } else {
        rng.below(len)
    } as usize;
    match rng.below(6) {
        0 => payload.truncate(at),
        1 => payload.insert(at, rng.next_u64() as u8),
        2 => payload[at] = rng.pick(&[0, 1, 3, 6, 0x7f, 0x80, 0xff]),
        3 => payload[0] = rng.below(18) as u8,
        4 => {
            let run = at..(at + 8).min(payload.len());
            payload[run].fill(rng.pick(&[0, 0xff]));
        }
        _ => payload[at] ^= 1 << rng.below(8),
    }
}

/// Payloads as they are written, with their records, and changed ones.
fn payloads() -> impl Iterator<Item = (Vec<u8>, Option<Vec<Record>>)> {
    let mut rng = Rng::new(8);
    (0..GROUPS).flat_map(move |_| {
        let count = 1 + rng.below(5);
        let records: Vec<Record> = (0..count).map(|_| record(&mut rng)).collect();
        let mut payload = Vec::new();
        records.iter().for_each(|record| record.encode(&mut payload));
        let mut all = vec![(payload.clone(), Some(records))];
        for _ in 0..CHANGED {
            let mut changed = payload.clone();
            change(&mut rng, &mut changed);
            all.push((changed, None));
        }
        all
    })
}

/// Whether a decoder says of some payload what ours does not.
fn is_seen(other: impl Fn(&[u8]) -> Decoded) -> bool {
    payloads().any(|(payload, _)| ours(&payload) != other(&payload))
}

#[test]
fn two_decoders_say_the_same_of_the_same_bytes() {
    let (mut taken, mut refused) = (0, BTreeSet::new());
    for (payload, records) in payloads() {
        let decoded = ours(&payload);
        assert_eq!(decoded, engines(&payload), "{payload:02x?}");
        match (&decoded, records) {
            (Ok(decoded), Some(records)) => assert_eq!(*decoded, records),
            (Ok(_), None) => taken += 1,
            (Err((_, what)), None) => _ = refused.insert(*what),
            (Err(wrong), Some(_)) => panic!("{wrong:?} in what was encoded"),
        }
    }
    assert!(taken > 1000, "only {taken} changed payloads are records still");
    let all = [
        "a record allocates or frees more than one inode number",
        "map-entry is empty or out of range",
        "range reaches beyond its page",
        "record is longer than its fields",
        "record is shorter than its fields",
        "record reaches beyond its group",
        "run is empty, too long or out of range",
        "space has no alloc and free records",
        "unknown record type",
        "unknown space",
    ];
    assert_eq!(refused, BTreeSet::from(all), "not every sentence was met");
}

/// What a decoder with a bug makes of a record.
type Bug = fn(&mut Record);

/// Bugs that a decoder could have, each of one field.
const BUGS: &[(&str, Bug)] = &[
    ("a tail is of the page before", |record| {
        if let Record::Tail { index, .. } = record {
            *index = index.saturating_sub(1);
        }
    }),
    ("inode and index of a lost page are exchanged", |record| {
        if let Record::Lost { ino, index } = record {
            std::mem::swap(ino, index);
        }
    }),
    ("a count of references is without its sign", |record| {
        if let Record::Ref { delta, .. } = record {
            *delta = delta.saturating_abs();
        }
    }),
    ("unwritten entries are holes", |record| {
        if let Record::MapEntry { page, crcs, .. } = record
            && crcs.is_empty()
        {
            *page = 0;
        }
    }),
    ("the last CRC is left out", |record| {
        if let Record::MapEntry { crcs, .. } = record {
            crcs.pop();
        }
    }),
    ("ranges of an update have each other's bytes", |record| {
        if let Record::Update { ranges, .. } = record
            && let [(_, first), .., (_, last)] = &mut ranges[..]
        {
            std::mem::swap(first, last);
        }
    }),
    ("a death is of the generation before", |record| {
        if let Record::Death { generation, .. } = record {
            *generation = generation.wrapping_sub(1);
        }
    }),
    ("zeros reach one byte less", |record| {
        if let Record::Zero { len, .. } = record {
            *len = len.saturating_sub(1);
        }
    }),
    ("an unlink leaves 16 bits of the names", |record| {
        if let Record::Unlink { nlink, .. } = record {
            *nlink &= 0xffff;
        }
    }),
];

#[test]
fn a_bug_in_the_engines_decoder_is_seen() {
    assert!(!is_seen(engines));
    for (what, bug) in BUGS {
        let with_bug = |payload: &[u8]| {
            engines(payload).map(|mut records| {
                records.iter_mut().for_each(bug);
                records
            })
        };
        assert!(is_seen(with_bug), "{what}");
    }
}

#[test]
fn what_the_engines_decoder_lets_pass_is_seen() {
    // A decoder that is content with any bytes after which it has a reason to stop.
    let whats: BTreeSet<&str> = payloads()
        .filter_map(|(payload, _)| Some(engines(&payload).err()?.1))
        .collect();
    for lets_pass in whats {
        let with_bug = |payload: &[u8]| match engines(payload) {
            Err((_, what)) if what == lets_pass => Ok(Vec::new()),
            decoded => decoded,
        };
        assert!(is_seen(with_bug), "{lets_pass}");
    }
}
