//! A log without its superblock: what stood in it alone is lost, which is said, and named as far as the log still tells (S-21.23).

use crate::builder::{Builder, Built, LOG_PAGES, LOG_START, PAGES};
use crate::sample;
use keepfs_check::mend::plan;
use keepfs_check::read::{Part, View};
use keepfs_check::{Finding, Options, walk};
use keepfs_codes::crc64;
use keepfs_format::plog::{FLAG_LAST, MAGIC, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::superblock::{CLEAN, slot_page};
use keepfs_format::{FromZeros, IntoBytes, PAGE};

/// A file of three pages.
const FILE: u64 = 4;

fn without_slots(builder: Builder, slots: &[usize]) -> Built {
    let mut built = builder.build();
    for slot in slots {
        built.page(slot_page(*slot, PAGES)).fill(0);
    }
    built
}

fn tail(ino: u64, index: u64) -> Record {
    Record::Tail {
        ino,
        index,
        version: 2,
        base: 0,
        base_crc: 0,
        offset: 0,
        bytes: vec![7; 100],
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

fn bad_pages(built: &Built, ino: u64) -> Vec<u64> {
    let mut view = View::salvage(&built.bytes).unwrap();
    assert_eq!(view.losses().len(), 1, "{:?}", view.losses());
    let mut bad = Vec::new();
    view.each_page(ino, &mut |index, part| {
        if let Part::Bad(count) = part {
            bad.extend(index..index + count);
        }
    });
    bad
}

#[test]
fn what_the_log_alone_had_is_named() {
    let mut b = sample::pool();
    b.group(&[tail(FILE, 0), tail(FILE, 1)]);
    b.group(&[mapped(FILE, 0)]);
    let built = without_slots(b, &[0, 1, 2, 3]);
    assert_eq!(bad_pages(&built, FILE), [1]);
    assert!(bad_pages(&built, 5).is_empty());
}

#[test]
fn what_was_carried_over_before_is_not() {
    let mut b = sample::pool();
    b.group(&[tail(FILE, 0)]);
    let parity = Record::Parity {
        bytes: 0,
        crc: 0,
        xor: Vec::new(),
    };
    b.group(&[parity, tail(FILE, 1)]);
    assert_eq!(bad_pages(&without_slots(b, &[0, 1, 2, 3]), FILE), [1]);
}

#[test]
fn the_newest_superblock_may_be_the_lost_one() {
    // Generation 3 has the slots 1 and 3.
    let mut b = sample::pool();
    b.group(&[tail(FILE, 1)]);
    let built = without_slots(b, &[1, 3]);
    assert_eq!(bad_pages(&built, FILE), [1]);
    let view = View::salvage(&built.bytes).unwrap();
    assert!(view.losses()[0].contains("generation 3"), "{:?}", view.losses());
    // What is chained to the one before is gone, too.
    let mut b = sample::pool();
    b.group(&[tail(FILE, 0)]);
    b.group(&[tail(FILE, 1)]);
    let first = b.sb.log_seq.get();
    let mut built = without_slots(b, &[1, 3]);
    built.page(LOG_START + first % LOG_PAGES).fill(0);
    assert_eq!(bad_pages(&built, FILE), [1]);
    let view = View::salvage(&built.bytes).unwrap();
    assert!(
        view.losses()[0].contains("a log page tells of a superblock of generation 3"),
        "{:?}",
        view.losses()
    );
    // Where nothing was written behind it, nothing tells whether the older one is lost or the newer.
    for slots in [[0, 2], [1, 3]] {
        let closed = without_slots(sample::pool(), &slots);
        let view = View::salvage(&closed.bytes).unwrap();
        assert!(
            view.losses()[0].contains("if that was the newer one"),
            "{:?}",
            view.losses()
        );
    }
}

/// S-21.10: a walk warns; what another pool's log left in the region tells nothing.
#[test]
fn a_walk_warns_of_a_generation_that_is_lost() {
    let found = |built: &Built| walk(&built.bytes, &Options::default()).findings;
    for (slots, generation) in [([0, 2], 3), ([1, 3], 2)] {
        let expected = Finding::SuperblockBeside { generation };
        assert_eq!(found(&without_slots(sample::pool(), &slots)), [expected]);
    }
    let mut b = sample::pool();
    b.group(&[tail(FILE, 0)]);
    b.group(&[tail(FILE, 1)]);
    let first = b.sb.log_seq.get();
    let mut built = without_slots(b, &[1, 3]);
    built.page(LOG_START + first % LOG_PAGES).fill(0);
    let newer = Finding::SuperblockNewer { generation: 2, base: 3 };
    assert!(found(&built).contains(&newer), "{:?}", found(&built));
    let sequence = first + 1 + 100 * LOG_PAGES;
    built.page(LOG_START + (first + 1) % LOG_PAGES)[8..16].copy_from_slice(&sequence.to_le_bytes());
    assert!(
        found(&built).contains(&Finding::SuperblockBeside { generation: 2 }),
        "{:?}",
        found(&built)
    );
}

/// Its other slots were never written, or a crash has torn the first that was.
#[test]
fn of_a_new_pool_one_generation_is_all() {
    let mut b = sample::pool();
    b.sb.generation = 1.into();
    let mut built = without_slots(b, &[0, 2]);
    let found = |built: &Built| walk(&built.bytes, &Options::default()).findings;
    assert_eq!(found(&built), []);
    built.page(0)[..512].fill(7);
    assert_eq!(found(&built), [Finding::SuperblockOld { slot: 0, page: 0 }]);
    built.page(PAGES / 2)[..512].fill(7);
    assert!(found(&built).contains(&Finding::SuperblockBeside { generation: 1 }));
}

#[test]
fn one_slot_of_each_is_enough() {
    for slots in [&[][..], &[0], &[1], &[0, 1], &[2, 3], &[0, 3]] {
        let mut b = sample::pool();
        b.group(&[tail(FILE, 1)]);
        let built = without_slots(b, slots);
        let view = View::salvage(&built.bytes).unwrap();
        assert!(view.losses().is_empty(), "{slots:?} {:?}", view.losses());
    }
}

/// First number of a log whose pool has numbers of its own (S-8.13), at place 18 of the ring.
const OWN: u64 = (1 << 40) + 50;

/// A page of a later life, as its own head tells it.
fn put_page(built: &mut Built, place: u64, number: u64, base: u64) {
    let mut head = PageHead::new_zeroed();
    (head.magic, head.flags) = (MAGIC.into(), FLAG_LAST);
    (head.sequence, head.base) = (number.into(), base.into());
    (head.group, head.durable, head.seq) = (9.into(), 8.into(), 200.into());
    built.page(LOG_START + place % LOG_PAGES)[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
}

/// A pool with numbers of its own and one group in the log, closed or not.
fn numbered(is_closed: bool) -> Built {
    let mut b = sample::pool();
    b.sb.log_seq = OWN.into();
    match is_closed {
        true => b.sb.state = CLEAN.into(),
        false => b.group(&[tail(FILE, 0)]),
    }
    b.build()
}

/// A check, a salvage and a repair of it.
fn tells_newer(built: &Built, base: u64, what: &str) {
    let newer = Finding::SuperblockNewer { generation: 3, base };
    let before = walk(&built.bytes, &Options::default());
    assert!(
        before.findings.contains(&newer) && !before.is_sound(),
        "{what}: {:?}",
        before.findings
    );
    let view = View::salvage(&built.bytes).unwrap();
    assert_eq!(view.losses(), [newer.to_string()], "{what}");
    let plan = plan(&built.bytes).unwrap_or_else(|refusal| panic!("{what}: {refusal}"));
    // The superblock in force stays until the new one, of the other parity, stands.
    assert!(
        plan.generation > base && plan.generation.is_multiple_of(2),
        "{what}: {}",
        plan.generation
    );
    let mut bytes = built.bytes.clone();
    for write in &plan.writes {
        bytes[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    assert_eq!(walk(&bytes, &Options::default()).findings, [], "{what}");
}

/// S-9.12, S-9.20: the slots of the lost superblock hold an older one (generation 2): what the log tells at its end is enough.
#[test]
fn a_stale_superblock_hides_no_lost_one() {
    for is_closed in [true, false] {
        let end = if is_closed { OWN } else { OWN + 1 };
        let later = end + LOG_PAGES;
        let pages: [&[(u64, u64, u64)]; 5] = [
            &[(end, later, 4)],
            &[(end + 1, later + 1, 4)],
            &[(end, later, 3), (end + 1, later + 1, 4)],
            &[(end, later + 7 * LOG_PAGES, 5)],
            &[(end, later, 4), (end + 1, later + 1, 6)],
        ];
        for pages in pages {
            let mut built = numbered(is_closed);
            pages
                .iter()
                .for_each(|(place, number, base)| put_page(&mut built, *place, *number, *base));
            let base = pages.iter().map(|(.., base)| *base).max().unwrap();
            tells_newer(&built, base, &format!("closed {is_closed}: {pages:?}"));
        }
        let silent: [&[(u64, u64, u64)]; 5] = [
            &[(end, later, 3)],
            &[(end, later + 1, 4)],
            &[(end + 2, later + 2, 4)],
            &[
                (end, later, 3),
                (end + 1, later + 1, 3),
                (end + 2, later + 2 + LOG_PAGES, 4),
            ],
            &[(end, later + 8 * LOG_PAGES, 4)],
        ];
        for pages in silent {
            let mut built = numbered(is_closed);
            pages
                .iter()
                .for_each(|(place, number, base)| put_page(&mut built, *place, *number, *base));
            let report = walk(&built.bytes, &Options::default());
            assert!(report.is_sound(), "closed {is_closed}: {pages:?} {:?}", report.findings);
        }
    }
}

/// A page of a later life of the log: its number, group, base generation, its life and the CRC before it. Returns its CRC.
fn put_whole(built: &mut Built, number: u64, group: u64, base: u64, life: u64, chain: u64) -> u64 {
    put_page(built, number, number, base);
    let (pool, incarnation) = (built.sb.pool, built.sb.incarnation.get() + life);
    let page = built.page(LOG_START + number % LOG_PAGES);
    page[16..24].copy_from_slice(&group.to_le_bytes());
    page[24..32].copy_from_slice(&(group - 1).to_le_bytes());
    let seed = [&pool[..], &incarnation.to_le_bytes(), &chain.to_le_bytes()].concat();
    let crc = crc64::full(&[&seed, &page[..PAGE - 8]].concat());
    page[PAGE - 8..].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// S-9.28: a recovery was cut before its superblock, and left pages of its carried group behind the log. With wrong bits in the base
/// generation of one of them nothing is lost; where the CRC has a newer one, or a later group tells it, a superblock is.
#[test]
fn no_wrong_bit_tells_of_a_lost_superblock() {
    for is_closed in [true, false] {
        let (end, group) = if is_closed { (OWN, 5) } else { (OWN + 1, 6) };
        let later = end + LOG_PAGES;
        let at = |number: u64| LOG_START + number % LOG_PAGES;
        let two = |bases: [u64; 2], groups: [u64; 2]| {
            let mut built = numbered(is_closed);
            let chain = put_whole(&mut built, later, groups[0], bases[0], 1, 0);
            put_whole(&mut built, later + 1, groups[1], bases[1], 1, chain);
            built
        };
        let runs = (0..64).flat_map(|bit| [1u64, 0x8001, 0xFFFF].map(|run| 3 ^ run << bit));
        for (base, number) in runs.flat_map(|base| [later, later + 1].map(|number| (base, number))) {
            for is_alone in [false, true] {
                let what = format!(
                    "closed {is_closed}: page {} has base {base}, alone {is_alone}",
                    number - later
                );
                let mut built = two([3, 3], [group; 2]);
                built.page(at(number))[32..40].copy_from_slice(&base.to_le_bytes());
                if is_alone {
                    built.page(at(2 * later + 1 - number)).fill(0);
                }
                assert_eq!(walk(&built.bytes, &Options::default()).findings, [], "{what}");
                if is_alone {
                    // Without the slots beside, too.
                    [0, 2]
                        .into_iter()
                        .for_each(|slot| built.page(slot_page(slot, PAGES)).fill(0));
                    let beside = Finding::SuperblockBeside { generation: 3 };
                    assert_eq!(walk(&built.bytes, &Options::default()).findings, [beside], "{what}");
                }
            }
        }
        tells_newer(&two([4, 4], [group; 2]), 4, "whole");
        tells_newer(&two([3, 4], [group; 2]), 4, "the second");
        let mut flipped = two([4, 3], [group; 2]);
        flipped.page(at(later))[1000] ^= 4;
        tells_newer(&flipped, 4, "a wrong bit elsewhere");
        let mut second = two([4, 4], [group, group + 1]);
        second.page(at(later)).fill(0xA5);
        tells_newer(&second, 4, "a later group");
    }
}

/// S-9.29: a page at the log's end is bad, and one behind it is of a newer base generation, and whole, in the same life of the log or a
/// later one, or tells far away (S-8.15): a superblock is lost. One that is not whole, or of no log behind this one, tells nothing.
#[test]
fn a_whole_page_tells_wherever_it_stands() {
    const FAR: u64 = 0x0152_4146_5045_454B;
    let end = OWN + 1;
    for bad in [&[0xA5; PAGE][..], &[0; PAGE]] {
        let behind = |number: u64, group: u64, base: u64, life: u64, chain: u64| {
            let mut built = numbered(false);
            built.page(LOG_START + end % LOG_PAGES).copy_from_slice(bad);
            let chain = put_whole(&mut built, number, group, 3, life, chain);
            put_whole(&mut built, number + 1, group, base, life, chain);
            built
        };
        for (number, life) in [
            (end + 1, 0),
            (end + 3, 0),
            (end + 7, 0),
            (end + 2 + LOG_PAGES, 1),
            (end + 3 + LOG_PAGES, 7),
        ] {
            let what = format!("{}: page {number}, life {life}", bad[0]);
            tells_newer(&behind(number, 7, 4, life, 5), 4, &what);
            let mut flipped = behind(number, 7, 4, life, 5);
            flipped.page(LOG_START + (number + 1) % LOG_PAGES)[1000] ^= 4;
            tells_newer(&flipped, 4, &what);
        }
        let mut far = numbered(false);
        far.page(LOG_START + end % LOG_PAGES).copy_from_slice(bad);
        put_whole(&mut far, end + 8, 8, 4, 0, FAR);
        tells_newer(&far, 4, "far away");
        let mut silent = vec![
            behind(end + 1, 7, 3, 0, 5),
            behind(end + 1, 7, 4, 8, 5),
            behind(end + 2 + 8 * LOG_PAGES, 7, 4, 1, 5),
        ];
        for at in [32, 1000] {
            let mut broken = behind(end + 1, 7, 4, 0, 5);
            let page = broken.page(LOG_START + (end + 2) % LOG_PAGES);
            (page[at], page[at + 100]) = (page[at] ^ 8, page[at + 100] ^ 8);
            silent.push(broken);
        }
        let mut flipped = behind(end + 1, 7, 3, 0, 5);
        flipped.page(LOG_START + (end + 2) % LOG_PAGES)[32] ^= 4;
        silent.push(flipped);
        for (nth, built) in silent.iter().enumerate() {
            let report = walk(&built.bytes, &Options::default());
            let is_newer = |found: &Finding| matches!(found, Finding::SuperblockNewer { .. });
            assert!(!report.findings.iter().any(is_newer), "{nth}: {:?}", report.findings);
        }
    }
}

/// S-10.7: the log of the lost superblock goes on from no page, and its first ones were written before it.
#[test]
fn a_stale_superblock_hides_no_log_begun_anew() {
    for bases in [&[4][..], &[3, 4], &[3, 3, 4]] {
        let mut b = sample::pool();
        let chain = [b.sb.chain.get().to_le_bytes(), 4u64.to_le_bytes()].concat();
        for (n, base) in bases.iter().enumerate() {
            b.group(&[tail(FILE, n as u64)]);
            b.log[n][0].head.base = (*base).into();
        }
        let own = core::mem::replace(&mut b.sb.chain, crc64::full(&chain).into());
        let mut built = b.build();
        for generation in [2, 3] {
            let mut sb = built.sb;
            (sb.generation, sb.chain) = (generation.into(), own);
            built.write_superblock(&sb);
        }
        tells_newer(&built, 4, &format!("{bases:?}"));
    }
}
