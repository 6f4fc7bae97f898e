//! The log: where it ends, what its records do, and each way in which a record can be wrong (SPEC sections 8 and 9).

use crate::builder::{Builder, LogPage, node};
use crate::sample::{self, GONE, LEAF_BORN, XATTR_A};
use keepfs_check::{Finding, Image, Options, Report, walk};
use keepfs_codes::crc64;
use keepfs_format::inode::BODY_DIRECT;
use keepfs_format::plog::{FLAG_DATA_FLUSHED, FLAG_LAST, PAYLOAD, Record, Run};
use keepfs_format::{Kind, MetaId, Space};

const DATA: Options = Options {
    data: true,
    limit: 1000,
};

fn report(b: Builder) -> Report {
    walk(&b.build().bytes, &DATA)
}

/// The checkpoint with one group of these records over it.
fn with(records: &[Record]) -> Vec<Finding> {
    let mut b = sample::pool();
    b.group(records);
    report(b).findings
}

/// Changes the two groups of the sample before they are chained.
fn groups(edit: impl FnOnce(&mut Builder)) -> (Vec<Finding>, u64) {
    let mut b = sample::pool_with_log();
    edit(&mut b);
    let report = report(b);
    (report.findings, report.log_groups)
}

fn run(start: u64, count: u32) -> Run {
    Run { start, count }
}

/// Flips a bit of this byte, and one far behind it: more than S-9.24 undoes.
fn spoil(page: &mut [u8], at: usize) {
    [at, (at + 1000) % page.len()].into_iter().for_each(|at| page[at] ^= 1);
}

/// S-9.24: a run of at most 16 wrong bits is told, and nothing ends there, be it in the last page or before it.
#[test]
fn flipped() {
    let whole = walk(&sample::pool_with_log().build().bytes, &DATA);
    assert_eq!((&whole.findings[..], whole.log_groups), (&[][..], 2));
    for (sequence, at) in [50, 51]
        .into_iter()
        .flat_map(|q| [0, 4, 6, 8, 16, 24, 32, 40, 300, 4087, 4088, 4094].map(|at| (q, at)))
    {
        for wrong in [1_u16, 0x80, 0x8001, 0xFFFF] {
            let mut built = sample::pool_with_log().build();
            let page = 8 + sequence % 32;
            let bytes = built.page(page);
            (bytes[at], bytes[at + 1]) = (bytes[at] ^ wrong as u8, bytes[at + 1] ^ (wrong >> 8) as u8);
            let report = walk(&built.bytes, &DATA);
            let told = Finding::LogFlipped {
                sequence,
                page,
                byte: at,
                bits: wrong.count_ones(),
            };
            assert_eq!(
                (report.findings, report.log_groups),
                (vec![told], 2),
                "{wrong:#x} at byte {at}"
            );
        }
    }
    // Another group's, another superblock's, or against a rule, as it was written: what is wrong besides is not undone.
    let edits: [fn(&mut Builder); 4] = [
        |b| b.log[1][0].head.group = 9.into(),
        |b| b.log[1][0].head.base = 1.into(),
        |b| b.log[1][0].head.flags |= 4,
        |b| b.log[1][0].head.reserved = 1,
    ];
    for edit in edits {
        let mut b = sample::pool_with_log();
        edit(&mut b);
        let mut built = b.build();
        built.page(8 + 51 % 32)[300] ^= 1;
        let report = walk(&built.bytes, &DATA);
        assert_eq!((report.findings, report.log_groups), (vec![], 1));
    }
}

/// S-8.1, S-8.3, S-8.4, S-9.1: the log ends before the first page that is not as it must be; the state before it is whole.
#[test]
fn ends() {
    for at in [0, 4, 8, 16, 24, 32, 40, 48, 300, 4088] {
        let mut built = sample::pool_with_log().build();
        spoil(built.page(8 + 51 % 32), at);
        let report = walk(&built.bytes, &DATA);
        assert_eq!(
            (report.findings, report.log_groups),
            (vec![], 1),
            "byte {at} of the second page"
        );
    }
    assert_eq!(groups(|b| b.log[1][0].head.group = 9.into()), (vec![], 1));
    assert_eq!(groups(|b| b.log[1][0].head.base = 1.into()), (vec![], 1));
    assert_eq!(groups(|b| b.log[1][0].head.base = 2.into()), (vec![], 2));
    let mut built = sample::pool_with_log().build();
    let mut sb = built.sb;
    sb.incarnation = 78.into();
    built.write_superblock(&sb);
    assert_eq!(walk(&built.bytes, &DATA).log_groups, 0);
    let torn = |b: &mut Builder| b.log[1][0].head.flags = 0;
    assert_eq!(groups(torn), (vec![Finding::LogTorn { sequence: 52 }], 1));
}

/// An image with a page that cannot be read.
struct Unreadable<'i>(&'i [u8], u64);

impl Image for Unreadable<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        match page == self.1 {
            true => Err("a bad sector".into()),
            false => self.0.read(page, buf),
        }
    }
}

/// S-9.7: a later page that tells that the group was flushed proves that it is gone, be the page changed or unreadable; an
/// unreadable page without one behind it is told as what it is.
#[test]
fn ends_too_early() {
    let built = |durable: u64| {
        let mut b = sample::pool_with_log();
        b.log[1][0].head.durable = durable.into();
        b.build()
    };
    let group = sample::pool_with_log().log[0][0].head.group.get();
    let page = |sequence: u64| 8 + sequence % 32;
    let unreadable = |durable, sequence| walk(&Unreadable(&built(durable).bytes, page(sequence)), &DATA).findings;
    let sequence = 50;
    let gone = Finding::LogGone {
        sequence,
        page: page(50),
        group,
    };
    for at in [0, 4, 8, 16, 24, 32, 40, 48, 300] {
        let mut changed = built(group);
        spoil(changed.page(page(50)), at);
        assert_eq!(walk(&changed.bytes, &DATA).findings[0], gone, "byte {at}");
        let mut torn = built(group - 1);
        spoil(torn.page(page(50)), at);
        assert!(!walk(&torn.bytes, &DATA).findings.contains(&gone), "byte {at}");
    }
    assert_eq!(unreadable(group, 50)[0], gone);
    let told = |sequence| Finding::LogUnreadable {
        sequence,
        page: page(sequence),
    };
    assert_eq!(unreadable(group - 1, 50)[0], told(50));
    assert_eq!(unreadable(group, 51), [told(51)]);
    assert_eq!(unreadable(group, 52), [told(52)]);
}

/// S-9.11, S-9.21: the group of the superblock that its durable tells has parity in its first page: one bad page of it, whichever, is made
/// again; two are a loss.
#[test]
fn the_carried_group_has_parity() {
    const ROOM: usize = PAYLOAD - 16;
    let built = || {
        let mut b = sample::pool_with_log();
        b.sb.durable = b.sb.group;
        let group = &mut b.log[0];
        let mut head = group[0].head;
        let payload = group[0].payload.clone();
        assert!(group.len() == 1 && payload.len() <= ROOM);
        let mut parity = vec![16, (12 + payload.len()) as u8, ((12 + payload.len()) >> 8) as u8, 0];
        parity.extend((payload.len() as u32).to_le_bytes());
        parity.extend(crc64::full(&payload).to_le_bytes());
        parity.extend(&payload);
        head.flags &= !FLAG_LAST;
        head.used = (parity.len() as u16).into();
        let payload = parity;
        group.insert(0, LogPage { head, payload });
        b.build()
    };
    let whole = walk(&built().bytes, &DATA);
    assert_eq!((whole.findings, whole.log_groups), (vec![], 2));
    for sequence in [50, 51] {
        let page = 8 + sequence % 32;
        for at in [0, 4, 8, 16, 24, 32, 40, 48, 60, 4088] {
            let mut spoilt = built();
            spoil(spoilt.page(page), at);
            let report = walk(&spoilt.bytes, &DATA);
            let mended = vec![Finding::LogMended { sequence, page }];
            assert_eq!(
                (report.findings, report.log_groups),
                (mended, 2),
                "byte {at} of page {sequence}"
            );
        }
    }
    // One is bad, the other one has a wrong bit, in its head, its payload or its CRC.
    for (bad, other) in [(50, 51), (51, 50)] {
        for at in [4, 6, 17, 25, 40, 60, 4089] {
            let mut spoilt = built();
            let (page, flipped) = (8 + bad % 32, 8 + other % 32);
            let bytes = spoilt.page(page);
            (bytes[70], bytes[3000]) = (!bytes[70], !bytes[3000]);
            spoilt.page(flipped)[at] ^= 0x20;
            let report = walk(&spoilt.bytes, &DATA);
            let mended = |f: &Finding| matches!(f, Finding::LogMended { sequence, .. } if *sequence == bad);
            let undone = |f: &Finding| matches!(f, Finding::LogFlipped { sequence, .. } if *sequence == other);
            let [one, two] = &report.findings[..] else {
                panic!("byte {at} of page {other}: {:?}", report.findings)
            };
            assert!(
                report.log_groups == 2 && [one, two].into_iter().any(mended) && [one, two].into_iter().any(undone),
                "byte {at} of page {other}: {:?}",
                report.findings
            );
        }
    }
    let mut spoilt = built();
    spoil(spoilt.page(8 + 50 % 32), 60);
    spoil(spoilt.page(8 + 51 % 32), 60);
    let gone = |f: &Finding| matches!(f, Finding::LogGone { sequence: 50, .. });
    assert!(walk(&spoilt.bytes, &DATA).findings.iter().any(gone));
}

/// S-9.7: the one page behind proves it whatever stands at the end: zeros, an older page, noise; half of the page itself only
/// where no other pool can have left a page of that number (S-8.13). A page that was never written ends the log.
#[test]
fn ends_at_a_page_that_looks_unwritten() {
    let group = sample::pool_with_log().log[0][0].head.group.get();
    for first in [50, (1 << 40) + 50] {
        let spoilt = |durable: u64, spoil: &dyn Fn(&mut [u8])| {
            let mut b = sample::pool_with_log();
            b.sb.log_seq = first.into();
            b.log[1][0].head.durable = durable.into();
            let mut built = b.build();
            spoil(built.page(8 + 50 % 32));
            let gone = |f: &Finding| matches!(f, Finding::LogGone { sequence, .. } if *sequence == first);
            walk(&built.bytes, &DATA).findings.iter().any(gone)
        };
        let zeros = |page: &mut [u8]| page.fill(0);
        let older = |page: &mut [u8]| {
            page[8..16].copy_from_slice(&(first - 32).to_le_bytes());
            page[16..24].copy_from_slice(&(group - 1).to_le_bytes());
        };
        let noise = |page: &mut [u8]| {
            page.iter_mut()
                .zip(1..)
                .for_each(|(byte, n): (_, u32)| *byte = ((n * n) >> 7) as u8)
        };
        let half = |page: &mut [u8]| page[2048..].fill(0x5C);
        for spoil in [&zeros as &dyn Fn(&mut [u8]), &older, &noise] {
            assert!(spoilt(group, spoil));
            assert!(!spoilt(group - 1, spoil));
        }
        assert_eq!(spoilt(group, &half), first > 50);
        assert!(!spoilt(group - 1, &half));
    }
    let mut built = sample::pool_with_log().build();
    built.page(8 + 52 % 32).fill(0);
    assert_eq!(walk(&built.bytes, &DATA).findings, []);
}

/// S-2.19: a chained page of a newer superblock says that the newest one was lost.
#[test]
fn lost_superblock() {
    let newer = |b: &mut Builder| b.log[1][0].head.base = 4.into();
    assert_eq!(
        groups(newer),
        (vec![Finding::SuperblockLost { sequence: 51, base: 4 }], 1)
    );
}

/// S-8.2.
#[test]
fn page_fields() {
    let expect = |field| (vec![Finding::LogPage { sequence: 51, field }], 2);
    assert_eq!(groups(|b| b.log[1][0].head.flags |= 4), expect("flags"));
    assert_eq!(groups(|b| b.log[1][0].head.reserved = 1), expect("reserved"));
    assert_eq!(groups(|b| b.log[1][0].head.durable = 6.into()), expect("durable"));
    assert_eq!(groups(|b| b.log[1][0].head.seq = 7.into()), expect("seq"));
    let (findings, taken) = groups(|b| b.log[1][0].head.used = 4041.into());
    assert_eq!((&findings[0], taken), (&expect("used").0[0], 1));
}

/// S-9.2, S-9.3: beyond `durable` a group counts only with its data.
#[test]
fn data_check() {
    let lost = |b: &mut Builder| drop(b.data.insert(610, Box::new([0; 4096])));
    let expected = vec![Finding::LogData {
        group: 5,
        ino: 17,
        index: 0,
        page: 610,
    }];
    // The second group names group 5 as durable, so the first is not asked; alone it is.
    assert_eq!(
        groups(lost),
        (
            vec![Finding::DataBad {
                ino: 17,
                index: 0,
                page: 610
            }],
            2
        )
    );
    let alone = |b: &mut Builder| {
        lost(b);
        b.log.pop();
    };
    assert_eq!(groups(alone), (expected, 0));
    let flushed = |b: &mut Builder| {
        alone(b);
        b.log[0][0].head.flags = FLAG_LAST | FLAG_DATA_FLUSHED;
    };
    assert_eq!(
        groups(flushed),
        (
            vec![Finding::DataBad {
                ino: 17,
                index: 0,
                page: 610
            }],
            1
        )
    );
    let durable = |b: &mut Builder| {
        alone(b);
        b.sb.durable = 5.into();
    };
    assert_eq!(groups(durable).1, 1);
}

/// S-9.13: a page that the group itself frees or replaces need not have arrived.
#[test]
fn data_no_longer_named() {
    let brought = |page| Record::MapEntry {
        ino: 4,
        index: 9,
        page,
        count: 1,
        version: 1,
        last_len: 1,
        crcs: vec![1],
    };
    let alloc = Record::Alloc {
        space: Space::Pages,
        run: run(700, 1),
    };
    let free = Record::Free {
        space: Space::Pages,
        run: run(700, 1),
    };
    assert_eq!(with(&[alloc.clone(), brought(700), free.clone()]), []);
    let holes = Record::MapEntry {
        ino: 4,
        index: 0,
        page: 0,
        count: 99,
        version: 1,
        last_len: 0,
        crcs: vec![],
    };
    assert_eq!(with(&[alloc.clone(), brought(700), holes, free.clone()]), []);
    let other = Record::Free {
        space: Space::Pages,
        run: run(701, 1),
    };
    let expected = [Finding::LogData {
        group: 5,
        ino: 4,
        index: 9,
        page: 700,
    }];
    assert_eq!(with(&[alloc.clone(), brought(700), other]), expected);
    // S-11.2: used again by the same group. What its first owners shared says nothing about the last one.
    let share = Record::Ref {
        run: run(700, 1),
        delta: 1,
    };
    let life = [alloc, brought(700), share, brought(700), free];
    let again = [&life[..], &life[..2]].concat();
    assert_eq!(with(&again)[0], expected[0]);
}

/// S-8.5, S-8.6.
#[test]
fn bits() {
    let alloc = |space, start| Record::Alloc {
        space,
        run: run(start, 1),
    };
    let free = |space, start| Record::Free {
        space,
        run: run(start, 1),
    };
    // What follows from the wrong record is told as well: the bitmap is as the log says.
    let first = |record: Record| with(&[record])[0].clone();
    let group = 5;
    assert_eq!(
        first(alloc(Space::Pages, 602)),
        Finding::LogAlloc {
            group,
            space: "PAGES",
            number: 602
        }
    );
    assert_eq!(
        first(free(Space::Pages, 620)),
        Finding::LogFree {
            group,
            space: "PAGES",
            number: 620
        }
    );
    assert_eq!(
        first(alloc(Space::InodeNumbers, 4)),
        Finding::LogAlloc {
            group,
            space: "INODE_NUMBERS",
            number: 4
        }
    );
    assert_eq!(
        with(&[alloc(Space::Orphans, 11)]),
        [Finding::LogAlloc {
            group,
            space: "ORPHANS",
            number: 11
        }]
    );
    assert_eq!(
        with(&[alloc(Space::Pages, 1024)]),
        [Finding::LogRange {
            group,
            what: "run of numbers"
        }]
    );
    assert_eq!(
        with(&[Record::Ref {
            run: run(1023, 2),
            delta: 1
        }]),
        [Finding::LogRange {
            group,
            what: "run of shared pages"
        }]
    );
    assert_eq!(
        first(Record::Ref {
            run: run(602, 1),
            delta: -1
        }),
        Finding::LogShare {
            group,
            page: 602,
            delta: -1
        }
    );
    // A leak that the log makes is in the bitmap and in TOTALS.
    assert_eq!(
        with(&[alloc(Space::Pages, 700)]),
        [Finding::PageSet { first: 700, count: 1 }]
    );
}

/// S-3.4, S-4.4, S-8.6.
#[test]
fn births_deaths_and_updates() {
    let birth = |index, generation, kind: Kind| Record::Birth {
        id: node(index),
        generation,
        kind: kind as u8,
        level: 0,
        owner: 3,
    };
    let wrong = |index, generation| {
        [Finding::LogBirth {
            group: 5,
            id: node(index).into(),
            generation,
        }]
    };
    assert_eq!(with(&[birth(GONE, 3, Kind::Xattr)]), wrong(GONE, 3));
    assert_eq!(with(&[birth(XATTR_A, 2, Kind::Xattr)]), wrong(XATTR_A, 2));
    assert_eq!(with(&[birth(99, 2, Kind::Xattr)]), wrong(99, 2));
    assert_eq!(with(&[birth(99, 1, Kind::Map)]), wrong(99, 1));
    let death = |index, generation| Record::Death {
        id: node(index),
        generation,
    };
    let wrong = |index, generation| {
        [Finding::LogDeath {
            group: 5,
            id: node(index).into(),
            generation,
        }]
    };
    assert_eq!(with(&[death(GONE, 3)]), wrong(GONE, 3));
    assert_eq!(with(&[death(XATTR_A, 2)]), wrong(XATTR_A, 2));
    // Born and dead again within a group leaves nothing, but its generation counts.
    assert_eq!(with(&[birth(99, 1, Kind::Xattr), death(99, 1)]), []);
    assert_eq!(
        with(&[
            birth(99, 1, Kind::Xattr),
            death(99, 1),
            birth(99, 2, Kind::Xattr),
            death(99, 2)
        ]),
        []
    );
    let update = |id, generation| Record::Update {
        id,
        generation,
        ranges: vec![(4000, vec![1])],
    };
    let wrong = |id: MetaId, generation| {
        [Finding::LogUpdate {
            group: 5,
            id: id.into(),
            generation,
        }]
    };
    assert_eq!(with(&[update(node(XATTR_A), 2)]), wrong(node(XATTR_A), 2));
    let pages = MetaId::new(Space::Pages, 0);
    assert_eq!(with(&[update(pages, 1)]), wrong(pages, 1));
    assert_eq!(with(&[update(node(XATTR_A), 0)]), []);
    assert_eq!(with(&[update(node(GONE), 3)]), []);
}

/// A birth record left out: the updates of the node are for a life that never began.
#[test]
fn birth_omitted() {
    let mut b = sample::pool();
    let mut records = vec![Record::Alloc {
        space: Space::InodeNumbers,
        run: run(17, 1),
    }];
    records.push(Record::Update {
        id: node(LEAF_BORN),
        generation: 1,
        ranges: vec![(32, vec![40])],
    });
    b.group(&records);
    let findings = report(b).findings;
    let expected = Finding::LogUpdate {
        group: 5,
        id: node(LEAF_BORN).into(),
        generation: 1,
    };
    assert_eq!(findings[0], expected);
}

/// S-3.3, S-8.9: what a record touches first is born of zeros; here the first transaction of a pool.
#[test]
fn born_of_zeros() {
    let mut b = Builder::new();
    let mut records = vec![Record::Alloc {
        space: Space::InodeNumbers,
        run: run(1, 1),
    }];
    records.push(Record::Create { ino: 1, born: 1 });
    records.extend(b.logged(|b| {
        b.new_inode(1, sample::DIR, |i| (i.nlink, i.parent) = (2.into(), 1.into()));
    }));
    b.group(&records);
    let report = report(b);
    assert_eq!((report.findings, report.counts.directories), (vec![], 1));
}

/// S-3.3: a metablock of inodes dies only if none of its numbers is in use; used again, it goes on from there.
#[test]
fn inodes_die_and_are_born_again() {
    let inodes = |index| MetaId::new(Space::Inodes, index);
    let death = |index, generation| Record::Death {
        id: inodes(index),
        generation,
    };
    let wrong = |index, generation| {
        [Finding::LogDeath {
            group: 5,
            id: inodes(index).into(),
            generation,
        }]
    };
    assert_eq!(with(&[death(0, 1)])[..1], wrong(0, 1));
    assert_eq!(with(&[death(5, 2)]), wrong(5, 2));
    assert_eq!(with(&[death(5, 1)]), []);
    let again = |generation| Record::Update {
        id: inodes(5),
        generation,
        ranges: vec![(100, vec![0])],
    };
    // A range of the life that is over is skipped, one of the next life is not, one of a later life is damage.
    assert_eq!(with(&[death(5, 1), again(1)]), []);
    assert_eq!(with(&[death(5, 1), again(2)]), []);
    let never = Finding::LogUpdate {
        group: 5,
        id: inodes(5).into(),
        generation: 3,
    };
    assert_eq!(with(&[death(5, 1), again(3)]), [never]);
}

/// S-8.5, S-8.7.
#[test]
fn undecodable_and_out_of_order() {
    let mut b = sample::pool();
    b.raw_group(&[99, 0, 0, 0]);
    let what = "unknown record type";
    assert_eq!(report(b).findings, [Finding::LogRecord { group: 5, at: 4, what }]);
    let update = |ranges| Record::Update {
        id: node(XATTR_A),
        generation: 1,
        ranges,
    };
    let order = |what| [Finding::LogOrder { group: 5, what }];
    let link = Record::Link { ino: 4, dir: 1 };
    assert_eq!(
        with(&[update(vec![(4095, vec![0])]), link]),
        order("a record stands after updates")
    );
    let none = update(vec![(32, vec![])]);
    assert_eq!(with(&[none]), order("ranges of an update overlap"));
    let id = MetaId::new(Space::Inodes, 0);
    let same = |at| Record::Update {
        id,
        generation: 1,
        ranges: vec![(at, vec![0])],
    };
    assert_eq!(with(&[same(4090), same(4091)]), order("a metablock is updated twice"));
    let overlap = Record::Update {
        id,
        generation: 1,
        ranges: vec![(4090, vec![0, 0]), (4091, vec![0])],
    };
    assert_eq!(with(&[overlap]), order("ranges of an update overlap"));
}

fn tail(ino: u64, index: u64, version: u32, base: (u64, u32), bytes: &[u8]) -> Record {
    Record::Tail {
        ino,
        index,
        version,
        base: base.0,
        base_crc: base.1,
        offset: 0,
        bytes: bytes.to_vec(),
    }
}

/// S-8.8: staged pages against the inode and its block map.
#[test]
fn staged() {
    let wrong = |ino, index, field| [Finding::Staged { ino, index, field }];
    let crc = keepfs_codes::crc32c::of(&sample::pool().data[&601][..]);
    assert_eq!(with(&[tail(4, 1, 1, (601, crc), b"x")]), []);
    assert_eq!(
        with(&[tail(4, 1, 1, (601, 5), b"x")]),
        [Finding::DataBad {
            ino: 4,
            index: 1,
            page: 601
        }]
    );
    // A page that the log says is lost, and what heals it.
    let lost = Record::Lost { ino: 4, index: 1 };
    let told = [Finding::DataLost { ino: 4, index: 1 }];
    assert_eq!(with(std::slice::from_ref(&lost)), told);
    assert_eq!(with(&[tail(4, 1, 1, (601, crc), b"x"), lost.clone()]), told);
    assert_eq!(with(&[lost.clone(), tail(4, 1, 1, (0, 0), b"x")]), told);
    assert_eq!(
        with(&[lost.clone(), Record::Truncate { ino: 4, size: 9 }]),
        with(&[Record::Truncate { ino: 4, size: 9 }])
    );
    assert_eq!(
        with(&[tail(4, 1, 1, (600, crc), b"x")]),
        wrong(4, 1, "base (the block map names another page)")
    );
    assert_eq!(
        with(&[tail(4, 2, 1, (0, 0), b"x")]),
        wrong(4, 2, "index (it is beyond the file's size)")
    );
    assert_eq!(with(&[tail(4, 1, 9, (0, 0), b"x")]), wrong(4, 1, "version"));
    assert_eq!(with(&[tail(2, 0, 1, (0, 0), b"x")]), wrong(2, 0, "inode"));
    assert_eq!(with(&[tail(14, 0, 1, (0, 0), b"x")]), wrong(14, 0, "inode"));
    assert_eq!(
        with(&[tail(4, 1, 1, (0, 0), &[1; 905])]),
        [Finding::DataTail { ino: 4, index: 1 }]
    );
}

/// S-8.5: which records void a tail.
#[test]
fn tails_voided() {
    let stale = |index| tail(4, index, 1, (0, 0), &[1; 905]);
    let holes = Record::MapEntry {
        ino: 4,
        index: 0,
        page: 0,
        count: 2,
        version: 1,
        last_len: 0,
        crcs: vec![],
    };
    assert_eq!(with(&[stale(1), holes]), []);
    assert_eq!(with(&[stale(9), Record::Truncate { ino: 4, size: 5000 }]), []);
    assert_eq!(with(&[stale(1), Record::Truncate { ino: 4, size: 5000 }]), []);
    assert_eq!(with(&[stale(1), Record::Create { ino: 4, born: 2 }]), []);
    assert_eq!(with(&[stale(1), Record::Link { ino: 4, dir: 1 }]).len(), 1);
    let unlink = Record::Unlink {
        ino: 4,
        dir: 1,
        nlink: 0,
        born: 1,
    };
    assert_eq!(with(&[stale(1), unlink]).len(), 1);
    let number = |free| {
        let (space, run) = (Space::InodeNumbers, run(4, 1));
        if free {
            Record::Free { space, run }
        } else {
            Record::Alloc { space, run }
        }
    };
    assert_eq!(with(&[stale(1), number(true), number(false)]), []);
    let zero = Record::Zero {
        ino: 4,
        index: 1,
        version: 1,
        base: 0,
        base_crc: 0,
        offset: 904,
        len: 1,
    };
    assert_eq!(with(&[stale(1), zero]), []);
}

/// S-8.5: a data page that the log allocated is named by a map-entry record with its CRC; else S-9.3 asks nothing.
#[test]
fn unbrought() {
    let mut b = sample::pool();
    let entry = b.data_unaccounted(610, 8, 4096);
    let alloc = Record::Alloc {
        space: Space::Pages,
        run: run(610, 1),
    };
    let crc = entry.crc.get();
    let mut records = vec![alloc];
    records.extend(b.logged(|b| {
        b.inode(16, |i| {
            (i.body, i.pages, i.size) = (BODY_DIRECT, 1.into(), 4096.into());
            sample::entries(&mut i.body_area, &[entry]);
        });
    }));
    let told = Record::MapEntry {
        ino: 16,
        index: 0,
        page: 610,
        count: 1,
        version: 1,
        last_len: 4096,
        crcs: vec![crc],
    };
    let mut complete = records.clone();
    complete.insert(1, told);
    let updates = core::mem::take(&mut b.after);
    b.group(&records);
    assert_eq!(
        report(b).findings,
        [Finding::LogUnbrought {
            ino: 16,
            index: 0,
            page: 610
        }]
    );
    let mut b = sample::pool();
    b.data_unaccounted(610, 8, 4096);
    b.after = updates;
    b.group(&complete);
    assert_eq!(report(b).findings, []);
}
