//! A log without its superblock: what stood in it alone is lost, which is said, and named as far as the log still tells (S-21.23).

use crate::builder::{Builder, Built, LOG_PAGES, LOG_START, PAGES};
use crate::sample;
use keepfs_check::read::{Part, View};
use keepfs_check::{Finding, Options, walk};
use keepfs_format::plog::Record;
use keepfs_format::superblock::slot_page;

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
