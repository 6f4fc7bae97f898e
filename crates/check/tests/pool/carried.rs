//! The group that carried staged pages over the last checkpoint is lost: that is told, and named what can be (S-9.17, S-21.25).

use crate::builder::{Built, LOG_PAGES, LOG_START, LogPage};
use crate::sample;
use keepfs_check::mend::{Plan, plan};
use keepfs_check::read::{Part, View};
use keepfs_check::{Finding, Options, Report, walk};
use keepfs_codes::{crc32c, crc64};
use keepfs_format::plog::{FLAG_LAST, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::{FromZeros, IntoBytes, PAGE};

/// Payload bytes of the pages behind the first.
const ROOM: usize = PAYLOAD - 16;
/// Files of three pages and more.
const FILE: u64 = 4;
const OTHER: u64 = 5;

/// A whole page staged as version 2.
pub fn tail(ino: u64, index: u64) -> Record {
    Record::Tail {
        ino,
        index,
        version: 2,
        base: 0,
        base_crc: 0,
        offset: 0,
        bytes: vec![7; PAGE],
    }
}

fn mapped(ino: u64, index: u64) -> Record {
    Record::MapEntry {
        ino,
        index,
        page: 0,
        count: 1,
        version: 2,
        last_len: 0,
        crcs: Vec::new(),
    }
}

fn encoded(records: &[Record]) -> Vec<u8> {
    let mut payload = Vec::new();
    records.iter().for_each(|record| record.encode(&mut payload));
    payload
}

fn place(number: u64) -> u64 {
    LOG_START + number % LOG_PAGES
}

/// The sample with a carried group of four pages, whose records say transaction `seq` beyond the superblock's.
fn carried(seq: u64) -> Built {
    let mut b = sample::pool();
    b.sb.durable = b.sb.group;
    let payload = encoded(&[tail(FILE, 0), tail(OTHER, 0)]);
    let mut xor = vec![0; ROOM];
    for part in payload.chunks(ROOM) {
        xor.iter_mut().zip(part).for_each(|(sum, byte)| *sum ^= byte);
    }
    let parity = Record::Parity {
        bytes: payload.len() as u32,
        crc: crc64::full(&payload),
        xor,
    };
    let parity = encoded(&[parity]);
    let parts: Vec<&[u8]> = [&parity[..]].into_iter().chain(payload.chunks(ROOM)).collect();
    let page = |(n, payload): (usize, &&[u8])| {
        let mut head = PageHead::new_zeroed();
        head.magic = MAGIC.into();
        head.used = (payload.len() as u16).into();
        head.flags = if n + 1 == parts.len() { FLAG_LAST } else { 0 };
        head.group = b.sb.group;
        head.durable = (b.sb.group.get() - 1).into();
        head.base = (b.sb.generation.get() - 1).into();
        head.seq = (b.sb.seq.get() + seq).into();
        let payload = payload.to_vec();
        LogPage { head, payload }
    };
    b.log.push(parts.iter().enumerate().map(page).collect());
    assert_eq!(b.log[0].len(), 4);
    b.build()
}

/// Writes a group of one page of the log before the carried one, so many numbers before it.
fn older(built: &mut Built, before: u64, records: &[Record]) {
    let payload = encoded(records);
    let number = built.sb.log_seq.get() - before;
    let mut head = PageHead::new_zeroed();
    head.magic = MAGIC.into();
    head.used = (payload.len() as u16).into();
    head.flags = FLAG_LAST;
    head.sequence = number.into();
    head.group = (built.sb.group.get() - 1).into();
    head.durable = (built.sb.group.get() - 2).into();
    head.base = (built.sb.generation.get() - 1).into();
    let page = built.page(place(number));
    page[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
    page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + payload.len()].copy_from_slice(&payload);
}

fn without(mut built: Built, bad: &[u64]) -> Built {
    let first = built.sb.log_seq.get();
    bad.iter().for_each(|n| built.page(place(first + n)).fill(0));
    built
}

fn checked(built: &Built) -> Report {
    walk(&built.bytes, &Options::default())
}

fn is_told(built: &Built) -> bool {
    let told = Finding::LogCarried {
        sequence: built.sb.log_seq.get(),
        group: built.sb.group.get(),
    };
    let findings = checked(built).findings;
    let is_one = |f: &Finding| matches!(f, Finding::LogCarried { group, .. } if *group == built.sb.group.get());
    assert_eq!(
        findings.iter().any(is_one),
        findings.iter().any(|f| f.code() == told.code())
    );
    findings.iter().any(is_one)
}

/// What a salvage leaves out of both files.
fn left_out(built: &Built) -> Vec<(u64, u64)> {
    let mut view = View::salvage(&built.bytes).unwrap();
    let is_said = view.losses().iter().any(|loss| loss.contains("older bytes, or zeros"));
    assert!(is_said && view.is_carried_lost(), "{:?}", view.losses());
    let mut bad = Vec::new();
    for ino in [FILE, OTHER] {
        view.each_page(ino, &mut |index, part| {
            if matches!(part, Part::Bad(1)) {
                bad.push((ino, index));
            }
        });
    }
    bad
}

/// Repairs, and gives what a check of that finds lost.
fn repaired(built: &Built) -> (Plan, Vec<(u64, u64)>) {
    let plan = plan(&built.bytes).unwrap();
    let mut after = built.bytes.clone();
    for write in &plan.writes {
        after[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    let report = walk(&after, &Options::default());
    assert!(report.is_sound(), "{report}");
    let lost = report.findings.iter().filter_map(|f| match f {
        Finding::DataLost { ino, index } => Some((*ino, *index)),
        _ => None,
    });
    let lost = lost.collect();
    (plan, lost)
}

/// S-9.17: any two pages, and not one that a sync's group lacks.
#[test]
fn two_bad_pages_of_it_are_told() {
    assert_eq!(checked(&carried(0)).findings, []);
    for (one, two) in (0..4).flat_map(|one| (one + 1..4).map(move |two| (one, two))) {
        let built = without(carried(0), &[one, two]);
        assert!(is_told(&built), "{one} and {two}: {:?}", checked(&built).findings);
        let gone = |f: &Finding| matches!(f, Finding::LogGone { .. });
        assert!(checked(&built).findings.iter().any(gone));
    }
    (0..4).for_each(|one| assert!(!is_told(&without(carried(0), &[one])), "{one}"));
    // The first is accepted, or the last continues the one before: these tell that it was a sync's.
    for bad in [[1, 2], [0, 1]] {
        let built = without(carried(1), &bad);
        assert!(!is_told(&built), "{bad:?}: {:?}", checked(&built).findings);
        assert!(
            checked(&built).findings.iter().any(|f| f.code() == "log-gone"),
            "{bad:?}"
        );
    }
    // What the last one says is not proved.
    assert!(is_told(&without(carried(1), &[0, 2])));
}

/// S-21.25, S-21.24: what cannot be named is told as that, by all, and stays so in the list of damages.
#[test]
fn what_nobody_can_name_is_told() {
    let built = without(carried(0), &[0, 1]);
    assert_eq!(left_out(&built), []);
    let (plan, lost) = repaired(&built);
    assert_eq!(lost, []);
    assert!(plan.is_carried_lost && plan.may_be_older);
    assert!(
        plan.actions
            .iter()
            .any(|said| said.contains("of which files is not known")),
        "{:?}",
        plan.actions
    );
    let [entry] = &plan.given_up[..] else {
        panic!("{:?}", plan.given_up)
    };
    assert_eq!((entry.place, entry.inode, entry.length), (6, 0, 2));
    assert_eq!(entry.from, built.sb.group.get());
}

/// S-21.25 (1): the log before it tells, as far as it is there without a gap.
#[test]
fn the_log_before_it_names_files() {
    let parity = Record::Parity {
        bytes: 0,
        crc: 0,
        xor: Vec::new(),
    };
    // Groups, the latest first, each with its distance; what is named.
    type Case<'c> = (&'c [(u64, Vec<Record>)], &'c [(u64, u64)]);
    let both = (1, vec![tail(FILE, 0), tail(FILE, 1)]);
    let cases: [Case<'_>; 6] = [
        (core::slice::from_ref(&both), &[(FILE, 0), (FILE, 1)]),
        (&[(1, vec![mapped(FILE, 0)]), (2, both.1.clone())], &[(FILE, 1)]),
        (&[both.clone(), (3, vec![tail(OTHER, 0)])], &[(FILE, 0), (FILE, 1)]),
        (&[(2, both.1.clone())], &[]),
        (
            &[(1, vec![parity, tail(FILE, 1)]), (2, vec![tail(OTHER, 0)])],
            &[(FILE, 1)],
        ),
        // A recovery's log begins a round further on.
        (&[(LOG_PAGES + 1, vec![tail(FILE, 1)])], &[(FILE, 1)]),
    ];
    for (case, (groups, named)) in cases.into_iter().enumerate() {
        let mut built = without(carried(0), &[0, 1]);
        for (before, records) in groups {
            let records: Vec<Record> = records.iter().cloned().map(short).collect();
            older(&mut built, *before, &records);
        }
        // A salvage looks behind a gap, too (S-21.23).
        let left_out = left_out(&built);
        assert!(named.iter().all(|page| left_out.contains(page)), "{case}: {left_out:?}");
        let (plan, lost) = repaired(&built);
        assert_eq!(lost, named, "{case}: {:?}", plan.actions);
        let of_file = plan.given_up.iter().filter(|entry| entry.inode == FILE).count();
        assert_eq!(of_file, usize::from(!named.is_empty()));
        assert_eq!(
            plan.actions.iter().any(|said| said.contains("are among them")),
            !named.is_empty()
        );
    }
}

/// S-21.25 (1): behind a gap, as of the page that tells far from the log's end (S-8.15), what a page was staged over tells whether it was
/// written since.
#[test]
fn behind_a_gap_the_base_tells() {
    // As the sample has them: page 1 of the one file, the first of the other.
    for (ino, index, page) in [(FILE, 1, 601), (OTHER, 0, 602)] {
        for (is_base, before) in [(true, 2), (false, 2), (false, 1)] {
            let mut built = without(carried(0), &[1, 2]);
            let content = &built.bytes[page as usize * PAGE..][..PAGE];
            let crc = crc32c::of(content);
            let staged = Record::Tail {
                ino,
                index,
                version: 2,
                base: page,
                base_crc: if is_base { crc } else { !crc },
                offset: 0,
                bytes: vec![7; 100],
            };
            older(&mut built, before, &[staged]);
            let named: &[(u64, u64)] = if is_base || before == 1 { &[(ino, index)] } else { &[] };
            assert_eq!(repaired(&built).1, named, "{ino} {is_base} {before}");
        }
    }
}

/// A tail of few bytes, so that a group is a page.
fn short(mut record: Record) -> Record {
    if let Record::Tail { bytes, .. } = &mut record {
        *bytes = vec![7; 100];
    }
    record
}

/// S-21.25 (2): its own pages name what they have, where the lengths of records lead to it.
#[test]
fn what_is_left_of_it_names_files() {
    let (first, second) = ((FILE, 0), (OTHER, 0));
    type Case<'c> = (&'c [u64], &'c [(u64, u64)]);
    let cases: [Case<'_>; 5] = [
        (&[0, 2], &[first]),
        (&[0, 3], &[first, second]),
        (&[2, 3], &[first]),
        (&[1, 3], &[]),
        (&[0, 1, 2], &[]),
    ];
    for (bad, named) in cases {
        let built = without(carried(0), bad);
        assert_eq!(left_out(&built), named, "{bad:?}");
        assert_eq!(repaired(&built).1, named, "{bad:?}");
    }
}

/// What follows no page that is there is not believed to name anything.
#[test]
fn a_page_that_was_changed_names_nothing() {
    let mut built = without(carried(0), &[3]);
    let first = built.sb.log_seq.get();
    let page = built.page(place(first + 1));
    (page[PAYLOAD_OFFSET + 4], page[3000]) = (OTHER as u8, 9);
    assert!(is_told(&built));
    assert_eq!(left_out(&built), []);
    assert_eq!(repaired(&built).1, []);
}
