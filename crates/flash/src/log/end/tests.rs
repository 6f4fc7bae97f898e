//! Each page of a log of several groups, bad in each way: a loss is proved exactly where a later page tells of it (S-9.7).

use crate::log::{Before, Cut, Head, Region, Stamp, append_pages, far, scan};
use keepfs_format::plog::PAYLOAD;
use keepfs_format::{PAGE, PoolId};
use keepfs_media::{Class, Device, PageNo};
use keepfs_pool::log::OWN_NUMBERS;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Faults, SimDevice};

const START: u64 = 3;
const RING: u64 = 64;
/// Of the log that the pages of the ring had before.
const FIRST_GROUP: u64 = 20;
const INCARNATION: u64 = 5;
const BASE: u64 = 9;

fn region(pool: u8) -> Region {
    Region {
        start: START,
        pages: RING,
        pool: PoolId([pool; 16]),
    }
}

/// A log: its superblock's head, where each group begins, its pages, and the `durable` that it tells.
struct Log {
    image: Image,
    head: Head,
    groups: Vec<(u64, u64, u64)>,
}

impl Log {
    /// Groups of these lengths over whatever `under` has; each tells that the one before was flushed, but a last one of the
    /// `unflushed`, which tell of what was flushed before them.
    fn over(under: &Image, first: u64, pool: u8, lengths: &[u64], unflushed: usize) -> Log {
        let device = SimDevice::over(under.clone());
        let mut head = Head {
            sequence: first,
            group: FIRST_GROUP,
            chain: 77,
        };
        let begin = head;
        let mut groups = Vec::new();
        let told_last = (FIRST_GROUP + lengths.len() as u64).saturating_sub(1 + unflushed as u64);
        for pages in lengths {
            let durable = (head.group - 1).min(told_last);
            groups.push((head.sequence, *pages, durable));
            let stamp = Stamp {
                incarnation: INCARNATION,
                durable,
                base: BASE,
                seq: 100 + head.group,
                flags: 0,
            };
            let payload = vec![0x5A; (*pages - 1) as usize * PAYLOAD + 10];
            append_pages(
                &device,
                &region(pool),
                &mut head,
                &stamp,
                &payload,
                *pages,
                &mut Vec::new(),
            )
            .expect("append");
        }
        Log {
            image: device.image(),
            head: begin,
            groups,
        }
    }

    /// An empty ring, and one that an earlier round filled.
    fn rounds(first: u64) -> [Image; 2] {
        let blank = SimDevice::new(START + RING).image();
        let head = Head {
            group: 1,
            sequence: first - RING,
            chain: 1,
        };
        let device = SimDevice::over(blank.clone());
        let stamp = Stamp {
            incarnation: INCARNATION,
            durable: 0,
            base: BASE - 3,
            seq: 7,
            flags: 0,
        };
        let mut at = head;
        for _ in 0..RING {
            at.group = 1;
            append_pages(&device, &region(1), &mut at, &stamp, b"old", 1, &mut Vec::new()).expect("append");
        }
        [blank, device.image()]
    }

    fn pages(&self) -> core::ops::Range<u64> {
        let (first, pages, _) = self.groups[self.groups.len() - 1];
        self.head.sequence..first + pages
    }

    fn group_of(&self, q: u64) -> u64 {
        let at = self
            .groups
            .iter()
            .position(|(first, pages, _)| (*first..first + pages).contains(&q));
        FIRST_GROUP + at.expect("of a group") as u64
    }

    /// Whether a page behind `q` tells that its group was flushed.
    fn tells(&self, q: u64) -> bool {
        let group = self.group_of(q);
        let behind = |(first, pages, durable): &(u64, u64, u64)| first + pages > q + 1 && *durable >= group;
        self.groups.iter().any(behind)
    }

    /// What ends the log in an image of which some pages are bad.
    fn cut(&self, image: &Image, bad: &[(u64, Bad)]) -> Option<Cut> {
        self.cut_behind(FIRST_GROUP - 1, image, bad)
    }

    /// The same where the superblock tells this group as flushed.
    fn cut_behind(&self, durable: u64, image: &Image, bad: &[(u64, Bad)]) -> Option<Cut> {
        let device = SimDevice::over(image.clone());
        let mut faults = Faults::none();
        for (q, bad) in bad {
            let page = PageNo(region(1).page(*q));
            match bad.content(image.bytes(page), *q) {
                Some(content) => device.write(page, &content, Class::Plog).expect("write"),
                None => faults = faults.unreadable(page),
            }
        }
        device.set_faults(faults);
        let before = Before {
            incarnation: INCARNATION,
            bases: BASE - 1..BASE + 1,
            seq: 1,
            durable,
            is_other_lost: false,
        };
        scan(&device, &region(1), self.head, &before).expect("scan").cut
    }
}

/// How a page is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bad {
    Zero,
    /// What stood there one round earlier.
    Older,
    /// The second half is something else: its head and not its CRC is right.
    Half,
    /// The first half is.
    Tail,
    Random,
    /// Two flipped bits far apart: more than S-9.24 undoes.
    Bits,
    /// All zeros but the CRC.
    OnlyCrc,
    Unreadable,
}

const KINDS: [Bad; 8] = [
    Bad::Zero,
    Bad::Older,
    Bad::Half,
    Bad::Tail,
    Bad::Random,
    Bad::Bits,
    Bad::OnlyCrc,
    Bad::Unreadable,
];

impl Bad {
    fn content(self, page: &[u8; PAGE], q: u64) -> Option<[u8; PAGE]> {
        let mut page = *page;
        let mut word = 0x9E37_79B9_7F4A_7C15 ^ q;
        let mut noise = |bytes: &mut [u8]| {
            for byte in bytes {
                word = word
                    .wrapping_mul(0x5851_F42D_4C95_7F2D)
                    .wrapping_add(0x1405_7B7E_F767_814F);
                *byte = (word >> 56) as u8;
            }
        };
        match self {
            Bad::Zero => page.fill(0),
            Bad::Older => {
                page[8..16].copy_from_slice(&(q - RING).to_le_bytes());
                page[16..24].copy_from_slice(&(FIRST_GROUP - 9).to_le_bytes());
            }
            Bad::Half => noise(&mut page[PAGE / 2..]),
            Bad::Tail => noise(&mut page[..PAGE / 2]),
            Bad::Random => noise(&mut page),
            Bad::Bits => [300, 2000].into_iter().for_each(|at| page[at] ^= 4),
            Bad::OnlyCrc => page[..PAGE - 8].fill(0),
            Bad::Unreadable => return None,
        }
        Some(page)
    }
}

/// Numbers of a pool of its own, and of one that a version before S-8.13 made.
const FIRSTS: [u64; 2] = [OWN_NUMBERS + 5 * RING + 50, 2 * RING + 50];

/// Shapes of a log: long and short groups, empty ones, and a last one that tells nothing new.
const SHAPES: [&[u64]; 5] = [&[1, 1, 1, 1], &[3, 1, 2, 4, 1], &[9, 1], &[1, 30, 1], &[2]];

/// S-9.7, S-9.18: every page of every log, bad in every way.
#[test]
fn a_bad_page_is_proved_where_a_later_one_tells() {
    let mut proved = 0;
    for first in FIRSTS {
        for under in Log::rounds(first) {
            for shape in SHAPES {
                let log = Log::over(&under, first, 1, shape, 0);
                assert_eq!(log.cut(&log.image, &[]), None, "{shape:?}");
                for (q, bad) in log.pages().flat_map(|q| KINDS.map(|bad| (q, bad))) {
                    let what = format!("{shape:?} from {first}: page {} {bad:?}", q - first);
                    let last_tells = log.tells(q) && q + 2 == log.pages().end;
                    // The page behind cannot be told from another pool's where this one may have such pages.
                    let hidden = first < OWN_NUMBERS && last_tells && bad == Bad::Half;
                    let found = log.cut(&log.image, &[(q, bad)]);
                    let is_proved = found.is_some_and(|cut| cut.proved);
                    assert_eq!(is_proved, log.tells(q) && !hidden, "{what}");
                    assert_eq!(found.is_some(), is_proved || bad == Bad::Unreadable, "{what}");
                    if let Some(cut) = found {
                        let unreadable = bad == Bad::Unreadable;
                        assert_eq!((cut.group, cut.unreadable), (log.group_of(q), unreadable), "{what}");
                        assert_eq!(cut.page, region(1).page(q), "{what}");
                    }
                    proved += usize::from(is_proved);
                }
            }
        }
    }
    assert!(proved > 1000, "{proved}");
}

/// S-9.15: a hole of many pages, of whatever they are.
#[test]
fn a_hole_of_many_pages_is_proved() {
    let shape = [1, 2, 40, 1, 1];
    for (first, bad) in FIRSTS.into_iter().flat_map(|first| KINDS.map(|bad| (first, bad))) {
        for under in Log::rounds(first) {
            let log = Log::over(&under, first, 1, &shape, 0);
            for (from, pages) in [(1, 2), (0, 7), (3, 30), (5, 20)] {
                let hole: Vec<(u64, Bad)> = (first + from..first + from + pages).map(|q| (q, bad)).collect();
                let found = log.cut(&log.image, &hole);
                assert!(found.is_some_and(|cut| cut.proved), "{pages} from {from} {bad:?}");
            }
        }
    }
}

/// S-9.19: what a power cut leaves of groups that were not flushed is no loss, whichever of their pages arrived, and in
/// whatever way the others are torn; nor is a page that an earlier life of the same log left there.
#[test]
fn a_torn_end_is_never_proved() {
    for first in FIRSTS {
        for under in Log::rounds(first) {
            // The last two were not flushed: one with records, an empty one before or behind it.
            for shape in [&[2, 3, 1][..], &[2, 1, 3], &[1, 4, 1], &[1, 1, 4]] {
                let log = Log::over(&under, first, 1, shape, 2);
                let unflushed: Vec<u64> = (log.groups[1].0..log.pages().end).collect();
                for missing in 1u64..1 << unflushed.len() {
                    for bad in KINDS {
                        let is_missing = |(i, _): &(usize, &u64)| missing >> i & 1 == 1;
                        let pages = unflushed.iter().enumerate().filter(is_missing);
                        let pages: Vec<(u64, Bad)> = pages.map(|(_, q)| (*q, bad)).collect();
                        let found = log.cut(&log.image, &pages);
                        let proved = found.is_some_and(|cut| cut.proved);
                        assert!(!proved, "{shape:?} from {first}, {missing:b} {bad:?}");
                    }
                }
            }
        }
    }
}

/// S-8.13, S-9.19: a pool of small numbers that was made over another one, whose log has the same numbers: its pages are behind
/// the end, chained, and tell of groups of the same numbers.
#[test]
fn pages_of_another_pool_prove_nothing() {
    let first = FIRSTS[1];
    let blank = &Log::rounds(first)[0];
    let other = Log::over(blank, first, 2, &[1, 2, 1, 1, 3, 1, 1, 1], 0);
    for shape in [&[1][..], &[1, 2], &[1, 2, 1, 1]] {
        let log = Log::over(&other.image, first, 1, shape, 1);
        assert_eq!(log.cut(&log.image, &[]), None, "{shape:?}");
        // The last group was torn: over the other's pages, which are whole.
        let torn = log.groups[shape.len() - 1].0;
        for q in torn..log.pages().end {
            let mut image = log.image.clone();
            let page = PageNo(region(1).page(q));
            for kept in [0, 512, 2048, 3584] {
                let of_other = *other.image.bytes(page);
                image.change(page, |bytes| bytes[kept..].copy_from_slice(&of_other[kept..]));
                assert_eq!(log.cut(&image, &[]), None, "{shape:?}, page {q}, {kept}");
            }
        }
    }
}

/// S-9.17: the superblock tells its first group as flushed, and a sync wrote it. Where a page proves that, the state without it may be
/// shown: one before the bad page, or one that continues the page before it. Else it may be the carried group.
#[test]
fn a_proved_page_tells_that_a_sync_wrote_the_first_group() {
    for (first, lengths) in FIRSTS
        .into_iter()
        .flat_map(|first| [[4, 1], [2, 1], [1, 2]].map(|lengths| (first, lengths)))
    {
        let blank = SimDevice::new(START + RING).image();
        let log = Log::over(&blank, first, 1, &lengths, 0);
        for (q, bad) in (first..first + lengths[0]).flat_map(|q| KINDS.map(|bad| (q, bad))) {
            let what = format!("{lengths:?} from {first}, page {q} {bad:?}");
            let cut = log.cut_behind(FIRST_GROUP, &log.image, &[(q, bad)]);
            let cut = cut.unwrap_or_else(|| panic!("{what}"));
            let keeps_crc = matches!(bad, Bad::Older | Bad::Tail | Bad::Bits | Bad::OnlyCrc);
            let left = first + lengths[0] - q - 1;
            let proved = q > first || left > 1 || left == 1 && keeps_crc;
            assert!(cut.proved && cut.carried != proved, "{what}: {cut:?}");
        }
    }
}

impl Log {
    /// The image with a page far from the end that tells `durable` (S-8.15).
    fn told_far(&self, durable: u64, incarnation: u64, base: u64) -> Image {
        let device = SimDevice::over(self.image.clone());
        let stamp = Stamp {
            incarnation,
            durable,
            base,
            seq: 200,
            flags: 0,
        };
        let place = far::place(&region(1), self.pages().end, self.head.sequence).expect("a place");
        far::write(&device, &region(1), place, durable + 1, &stamp).expect("write");
        device.image()
    }
}

/// S-8.15: the page stands at one of four places, in none that is needed of the log, and an eighth of the ring from both ends of what
/// is needed while that is less than half of it.
#[test]
fn the_far_page_takes_no_place_that_is_needed() {
    for (tail, used) in (2 * RING..3 * RING).flat_map(|tail| (0..RING).map(move |used| (tail, used))) {
        let (head, end) = (tail + used, tail + RING);
        let place = far::place(&region(1), head, tail);
        let least = head + 8.min(RING / 8);
        let all = (least..end).filter(|number| number % (RING / 4) == 0);
        assert_eq!(place.is_some(), all.count() > 0, "{tail} {used}");
        if let Some(place) = place {
            assert!(
                (least..end).contains(&place) && place % (RING / 4) == 0,
                "{tail} {used}"
            );
            let is_far = (place - head).min(end - place) >= RING / 8;
            assert!(is_far || used >= RING / 2, "{tail} {used}: {place}");
        }
    }
}

/// S-8.15: however long the log is, while not more than nine sixteenths of it are in use there is a place.
#[test]
fn a_small_log_has_a_place_for_the_far_page() {
    for pages in [32, 33, 40, 48, 64, 100, 512] {
        let region = Region { pages, ..region(1) };
        for (tail, used) in (2 * pages..3 * pages).flat_map(|tail| (0..=pages * 9 / 16).map(move |used| (tail, used))) {
            assert_ne!(far::place(&region, tail + used, tail), None, "{pages}: {tail} {used}");
        }
    }
}

/// S-9.27: the log is bad from any page up to its end, with the page that tells of its last group; the one far away proves it. A
/// page that is another life's, or an older checkpoint's, or tells of less proves nothing, and without damage none does.
#[test]
fn a_bad_end_is_told_far_away() {
    for (first, under) in FIRSTS
        .into_iter()
        .flat_map(|first| Log::rounds(first).map(|under| (first, under)))
    {
        for shape in SHAPES {
            let log = Log::over(&under, first, 1, shape, 0);
            let last = FIRST_GROUP + shape.len() as u64 - 1;
            let right = log.told_far(last, INCARNATION, BASE);
            let mut wrong = vec![
                log.told_far(last, INCARNATION, BASE - 2),
                log.told_far(FIRST_GROUP - 1, INCARNATION, BASE),
            ];
            // Of numbers of its own each belongs to one life (S-9.14), and S-9.7 asks for no more.
            if first < OWN_NUMBERS {
                wrong.push(log.told_far(last, INCARNATION - 1, BASE));
            }
            assert_eq!(log.cut(&right, &[]), None, "{shape:?}");
            for (from, bad) in log.pages().flat_map(|q| KINDS.map(|bad| (q, bad))) {
                let what = format!("{shape:?} from {first}: from page {} on {bad:?}", from - first);
                let end: Vec<(u64, Bad)> = (from..log.pages().end).map(|q| (q, bad)).collect();
                let found = log.cut(&right, &end);
                assert!(
                    found.is_some_and(|cut| cut.proved && cut.group == log.group_of(from)),
                    "{what}"
                );
                for image in &wrong {
                    let as_without = log.cut(&log.image, &end);
                    assert_eq!(log.cut(image, &end), as_without, "{what}");
                }
            }
        }
    }
}

/// A full log (S-10.7): its last group is told as durable by nothing but the first page of what a checkpoint carried over, which stands in
/// a chain of its own where the log ends. S-9.2
#[test]
fn a_page_that_begins_anew_tells_what_is_durable() {
    let first = OWN_NUMBERS;
    for under in Log::rounds(first) {
        let log = Log::over(&under, first, 1, &[1, 2], 1);
        let device = SimDevice::over(log.image.clone());
        let before = Before {
            incarnation: INCARNATION,
            bases: BASE - 1..BASE + 1,
            seq: 1,
            durable: FIRST_GROUP - 1,
            is_other_lost: false,
        };
        let scanned = || scan(&device, &region(1), log.head, &before).expect("scan");
        let expected = scanned().head;
        assert_eq!(expected.group, FIRST_GROUP + 2);
        let mut head = Head {
            chain: crate::log::begun_anew(expected.chain, BASE + 1),
            ..expected
        };
        let stamp = Stamp {
            incarnation: INCARNATION,
            durable: FIRST_GROUP + 1,
            base: BASE,
            seq: 1000,
            flags: 0,
        };
        append_pages(&device, &region(1), &mut head, &stamp, b"carried", 1, &mut Vec::new()).expect("append");
        let found = scanned();
        assert_eq!((found.head.group, found.durable), (FIRST_GROUP + 2, FIRST_GROUP + 1));
        assert_eq!(found.cut, None);
    }
}
