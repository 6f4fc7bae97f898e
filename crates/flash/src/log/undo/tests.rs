//! Runs of wrong bits in pages of a log, and what must not be taken for such (S-9.24, S-9.25).

use crate::log::{Before, Head, Mend, Region, Scan, Stamp, append_pages, scan};
use keepfs_codes::burst::LONGEST;
use keepfs_format::plog::{CRC_OFFSET, PAYLOAD};
use keepfs_format::{PAGE, PoolId};
use keepfs_media::PageNo;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;

const REGION: Region = Region {
    start: 3,
    pages: 32,
    pool: PoolId([1; 16]),
};
const HEAD: Head = Head {
    sequence: (1 << 40) + 70,
    group: 20,
    chain: 77,
};
const LENGTHS: [u64; 4] = [1, 3, 1, 2];
const PAGES: u64 = 7;

fn stamp(group: u64) -> Stamp {
    Stamp {
        incarnation: 5,
        durable: group - 1,
        base: 9,
        seq: 100 + group,
        flags: 0,
    }
}

fn payload(group: u64, pages: u64) -> Vec<u8> {
    let len = (pages - 1) as usize * PAYLOAD + 1000;
    (0..len).map(|at| (at * 7 + at / 251) as u8 ^ group as u8).collect()
}

/// Groups of [`LENGTHS`] pages from `head` on.
fn log(under: Image, mut head: Head) -> Image {
    let device = SimDevice::over(under);
    for pages in LENGTHS {
        let (stamp, payload) = (stamp(head.group), payload(head.group, pages));
        append_pages(&device, &REGION, &mut head, &stamp, &payload, pages, &mut Vec::new()).expect("append");
    }
    device.image()
}

fn blank() -> Image {
    SimDevice::new(REGION.start + REGION.pages).image()
}

fn read(image: Image) -> Scan {
    let before = Before {
        incarnation: 5,
        bases: 8..10,
        seq: 1,
        durable: 19,
        is_other_lost: false,
    };
    scan(&SimDevice::over(image), &REGION, HEAD, &before).expect("scan")
}

fn page(nth: u64) -> PageNo {
    PageNo(REGION.page(HEAD.sequence + nth))
}

fn is_whole(scan: &Scan) -> bool {
    let groups = LENGTHS
        .into_iter()
        .zip(20..)
        .map(|(pages, group)| (group, payload(group, pages)));
    let found = scan.groups.iter().map(|found| (found.group, found.payload.clone()));
    scan.cut.is_none() && scan.seen == HEAD.sequence + PAGES && scan.durable == 22 && found.eq(groups)
}

/// A few wrong bits in each page in turn, the last one too, at the fields, their ends, and elsewhere: nothing is lost, and it is told.
#[test]
fn a_run_of_wrong_bits_costs_nothing() {
    let image = log(blank(), HEAD);
    assert!(is_whole(&read(image.clone())));
    let runs = (0..8 * PAGE - LONGEST as usize).step_by(1999);
    let runs = runs.chain([0, 32, 48, 56, 64, 128, 192, 256, 320, 8 * CRC_OFFSET - 7, 8 * PAGE - 16]);
    for (nth, first) in runs.flat_map(|first| (0..PAGES).map(move |nth| (nth, first))) {
        for wrong in [1_u16, 0x8001, 0xFFFF] {
            let mut bad = image.clone();
            let bits = (0..16).filter(|bit| wrong >> bit & 1 == 1).map(|bit| first + bit);
            bad.change(page(nth), |bytes| bits.for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8)));
            let scan = read(bad);
            assert!(is_whole(&scan), "page {nth}, {wrong:#x} from bit {first}");
            let [mended] = &scan.mended[..] else {
                panic!("{:?}", scan.mended)
            };
            let Mend::Undone(burst) = mended.how else {
                panic!("{mended:?}")
            };
            assert_eq!((mended.page, burst.first, burst.wrong), (page(nth).0, first, wrong));
        }
    }
}

/// One wrong bit in every page.
#[test]
fn every_page_may_have_one() {
    let mut image = log(blank(), HEAD);
    (0..PAGES).for_each(|nth| image.change(page(nth), |bytes| bytes[500 * nth as usize + 6] ^= 1 << nth));
    let scan = read(image);
    assert!(is_whole(&scan));
    let groups: Vec<u64> = scan.mended.iter().map(|mended| mended.group).collect();
    assert_eq!(groups, [20, 21, 21, 21, 22, 23, 23]);
}

/// What is no page of this log, or not whole, is not made one: the log ends there.
#[test]
fn nothing_else_is_mended() {
    let earlier = Head {
        sequence: HEAD.sequence - REGION.pages,
        group: 3,
        chain: 1,
    };
    let old = log(blank(), earlier);
    let image = log(old.clone(), HEAD);
    let ends_at = |nth: u64, change: &dyn Fn(&mut [u8; PAGE])| {
        let mut bad = image.clone();
        bad.change(page(nth), change);
        let scan = read(bad);
        let seen = scan.cut.map_or(nth, |_| nth + 1);
        scan.mended.is_empty() && scan.seen == HEAD.sequence + seen
    };
    for nth in 0..PAGES {
        let older = *old.bytes(page(nth));
        assert!(ends_at(nth, &|bytes| bytes.fill(0)), "zeros, page {nth}");
        assert!(ends_at(nth, &|bytes| *bytes = older), "an older page, page {nth}");
        for from in (512..PAGE).step_by(512) {
            assert!(
                ends_at(nth, &|bytes| bytes[from..].copy_from_slice(&older[from..])),
                "torn, page {nth}, {from}"
            );
            assert!(
                ends_at(nth, &|bytes| bytes[..from].copy_from_slice(&older[..from])),
                "torn, page {nth}, {from}"
            );
        }
        assert!(ends_at(nth, &|bytes| (bytes[60], bytes[3000]) = (!bytes[60], !bytes[3000])));
        assert!(
            ends_at(nth, &|bytes| [60, 62].into_iter().for_each(|at| bytes[at] ^= 1)),
            "17 bits"
        );
    }
}

/// A page that is right but for wrong bits, and, as it was written, is not the one expected or breaks a rule: it stays bad.
#[test]
fn a_page_that_was_written_otherwise_stays_bad() {
    let whole = log(blank(), HEAD);
    let chain = u64::from_le_bytes(*whole.bytes(page(0)).last_chunk().expect("a CRC"));
    // Bytes of the head: magic, flags, reserved, number, group, durable, base.
    for (at, xor) in [
        (0, 1),
        (6, 4),
        (7, 1),
        (8, 1),
        (9, 1),
        (16, 1),
        (24, 63),
        (32, 2),
        (32, 16),
    ] {
        let mut image = whole.clone();
        image.change(page(1), |bytes| {
            bytes[at] ^= xor;
            let crc = REGION.crc(5, chain, bytes);
            bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
            bytes[2000] ^= 8;
        });
        let scan = read(image);
        assert!(scan.mended.is_empty(), "byte {at}");
        assert_eq!(scan.groups.len(), 1, "byte {at}");
    }
}
