//! A repair that is cut leaves the pool as it was before (S-21.5): at whichever write, and whichever of those before a flush arrived.

use crate::builder::{Built, LOG_PAGES, LOG_START, PAGES};
use crate::carried::tail;
use crate::sample;
use keepfs_check::mend::{Plan, plan};
use keepfs_check::read::{Part, View};
use keepfs_check::{Finding, Options, Severity, walk};
use keepfs_format::plog::{FLAG_LAST, MAGIC, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, FromZeros, IntoBytes, PAGE};

/// Files of three pages and more.
const FILES: [u64; 2] = [4, 5];
/// First number of a log whose pool has numbers of its own (S-8.13), at place 18 of the ring.
const OWN: u64 = (1 << 40) + 50;

/// The sample with generation 4 in slots 0 and 2, 3 in the others, and so many pages staged in its log.
fn staged(pages: usize) -> Built {
    let mut b = sample::pool();
    b.sb.generation = 4.into();
    b.sb.log_seq = OWN.into();
    let places = FILES.into_iter().flat_map(|ino| [(ino, 0), (ino, 1)]);
    for (ino, index) in places.take(pages) {
        b.group(&[tail(ino, index)]);
    }
    let mut built = b.build();
    let before = Superblock {
        generation: 3.into(),
        ..built.sb
    };
    built.write_superblock(&before);
    built
}

/// What a check calls an error, a salvage lost, and which pages of files it leaves out.
fn told(bytes: &Vec<u8>) -> (Vec<Finding>, Vec<String>, Vec<(u64, u64)>) {
    let findings = walk(bytes, &Options::default()).findings.into_iter();
    let errors = findings
        .filter(|finding| finding.severity() == Severity::Error)
        .collect();
    let mut view = View::salvage(bytes).unwrap();
    let losses = view.losses().to_vec();
    let mut bad = Vec::new();
    for ino in FILES {
        view.each_page(ino, &mut |index, part| {
            if let Part::Bad(count) = part {
                bad.extend((index..index + count).map(|index| (ino, index)));
            }
        });
    }
    (errors, losses, bad)
}

fn put(bytes: &mut [u8], plan: &Plan, n: usize) {
    let write = &plan.writes[n];
    bytes[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
}

/// Cuts the repair behind each write, and where of those before the first superblock one arrived, or all but one.
fn cut(built: &Built, what: &str) {
    let plan = plan(&built.bytes).unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
    let before = told(&built.bytes);
    let others = plan.writes.iter().take_while(|write| !write.is_superblock).count();
    let log = LOG_START..LOG_START + LOG_PAGES;
    assert!(
        plan.writes.iter().any(|write| log.contains(&write.page)),
        "{what}: carries nothing"
    );
    for one in 0..others {
        let (mut alone, mut without) = (built.bytes.clone(), built.bytes.clone());
        put(&mut alone, &plan, one);
        (0..others)
            .filter(|n| *n != one)
            .for_each(|n| put(&mut without, &plan, n));
        assert_eq!(told(&alone), before, "{what}: write {one} alone");
        assert_eq!(told(&without), before, "{what}: all but write {one}");
    }
    let mut bytes = built.bytes.clone();
    for n in 0..plan.writes.len() {
        put(&mut bytes, &plan, n);
        match n < others {
            true => assert_eq!(told(&bytes), before, "{what}: cut behind write {n}"),
            false => assert_eq!(told(&bytes).0, [], "{what}: cut behind write {n}"),
        }
    }
}

/// S-21.26: page 0, which alone tells where the others lie of a pool that is shorter than its device, is bad: the repair writes that,
/// and so skips a generation.
#[test]
fn a_generation_that_is_skipped_is_not_told_lost() {
    for pages in 1..=4 {
        let mut built = staged(pages);
        built.bytes.resize(PAGES as usize * PAGE * 2, 0);
        built.page(0).fill(0xA5);
        cut(&built, &format!("{pages} pages staged"));
    }
}

/// S-9.14: what is written behind a repair that carries nothing tells of its superblock by its group.
#[test]
fn a_repair_that_carries_nothing_begins_a_later_group() {
    let mut built = staged(0);
    built.page(0).fill(0xA5);
    let plan = plan(&built.bytes).expect("a repair");
    let superblocks = plan.writes.iter().filter(|write| write.is_superblock);
    let superblocks = superblocks.map(|write| Superblock::read_from_bytes(&write.bytes[..]).expect("a page"));
    let made = superblocks.max_by_key(|sb| sb.generation.get()).expect("a superblock");
    assert_eq!(made.generation.get(), plan.generation);
    assert_eq!(made.group.get(), built.sb.group.get() + 1);
}

/// A page of a later life of the log, in a chain of its own: its number, what it carries, flags, and base generation.
fn put_later(built: &mut Built, number: u64, records: &[Record], base: u64) {
    let mut payload = Vec::new();
    records.iter().for_each(|record| record.encode(&mut payload));
    let mut head = PageHead::new_zeroed();
    (head.magic, head.flags) = (MAGIC.into(), FLAG_LAST);
    (head.used, head.sequence, head.base) = ((payload.len() as u16).into(), number.into(), base.into());
    (head.group, head.durable, head.seq) = (20.into(), 19.into(), 200.into());
    let page = built.page(LOG_START + number % LOG_PAGES);
    page.fill(0);
    page[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
    page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + payload.len()].copy_from_slice(&payload);
}

/// S-21.26, S-21.23: the newest superblock, of generation 5, is lost, with what its log had.
#[test]
fn a_superblock_that_is_lost_is_told_as_before() {
    for pages in 1..=2 {
        let mut built = staged(pages);
        let end = OWN + 2 * pages as u64 + LOG_PAGES;
        let small = |ino| Record::Tail {
            ino,
            index: 0,
            version: 3,
            base: 0,
            base_crc: 0,
            offset: 0,
            bytes: vec![9; 100],
        };
        let parity = Record::Parity {
            bytes: 0,
            crc: 0,
            xor: Vec::new(),
        };
        put_later(&mut built, end, &[parity, small(5)], 4);
        put_later(&mut built, end + 1, &[small(4)], 5);
        cut(&built, &format!("{pages} pages staged"));
        // The lost log comes up to the one in force.
        put_later(&mut built, OWN + 2 * LOG_PAGES - 1, &[small(4)], 5);
        cut(&built, &format!("{pages} pages staged, no room behind"));
    }
}
