//! Both slots of the newest superblock are lost behind a crash (S-9.12, S-9.20): the pool is refused for writing, read-only it is as
//! before, and with the cut it goes on, over openings and crashes. With a wrong bit in each nothing is lost (S-2.27).

use crate::opened::open;
use crate::walked::check;
use keepfs_check::Finding;
use keepfs_format::plog::{MAGIC, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::{CRC_OFFSET, Superblock};
use keepfs_format::{FromBytes, IntoBytes, Kind, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

const PAGES: u64 = 4096;
/// Pages of the log.
const LOG: u64 = 32;

/// A change of a node and of a staged page to `number`, and a sync.
fn round(store: &Store, node: Ref, number: u64) {
    let bytes = number.to_le_bytes();
    let change = store.transact::<_, Error>(|t| {
        t.put(node, 64, &bytes, Meaning::Xattr)?;
        Ok(t.stage(5, 1, number as u32, None, 0, &bytes)?)
    });
    change.and_then(|()| store.sync()).expect("a round");
}

/// What the pool has.
fn number(store: &Store, node: Ref) -> u64 {
    let (mut number, mut page) = ([0; 8], [0; PAGE]);
    store.view().read(node, 64, &mut number).expect("the node");
    store.staged(5, 1, &mut page).expect("the staged page");
    assert_eq!(page[..8], number);
    u64::from_le_bytes(number)
}

/// The four slots: generation, place and what is there.
fn slots(device: &SimDevice) -> Vec<(u64, PageNo, [u8; PAGE])> {
    let slots = (0..4).map(|i| {
        let (place, mut page) = (PageNo(i * PAGES / 4), [0; PAGE]);
        device.read(place, &mut page).expect("read");
        let sb = Superblock::read_from_bytes(&page[..]).expect("a page");
        (sb.generation.get(), place, page)
    });
    slots.collect()
}

/// Both slots of the newest superblock are not what was written.
fn lose_newest(device: &SimDevice, zeros: bool) {
    let slots = slots(device);
    let newest = slots.iter().map(|(generation, ..)| *generation).max();
    for (_, place, mut page) in slots.into_iter().filter(|(generation, ..)| Some(*generation) == newest) {
        match zeros {
            true => page.fill(0),
            // More than a slot is read without (S-2.27).
            false => [100, 102].into_iter().for_each(|at| page[at] ^= 4),
        }
        device.write(place, &page, Class::Superblock).expect("write");
    }
}

/// Changes, in no group yet, until a checkpoint has to make room for them.
fn fill_log(store: &Store) {
    let before = store.stats().checkpoints;
    while store.stats().checkpoints == before {
        let change = store.transact::<_, Error>(|t| {
            let node = t.new_node(Kind::Xattr, 0, 9)?;
            Ok(t.put(node, 64, &[7; 3900], Meaning::Xattr)?)
        });
        change.expect("a node");
    }
}

/// A pool of which `lives` were closed properly, and one more was killed behind `checkpoints` and some rounds. With `no_room` the
/// log has none for what each checkpoint has to put into it, and goes on from no page (S-10.7).
fn crashed(lives: u64, checkpoints: u64, no_room: bool) -> (Arc<SimDevice>, Ref, u64) {
    let device = Arc::new(SimDevice::new(PAGES));
    let o = FormatOptions {
        log_pages: Some(LOG),
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    let mut store = open(&device, false, false).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let node = node.expect("new node");
    let mut last = 0;
    let mut rounds = |store: &Store| {
        for _ in 0..3 {
            last += 1;
            round(store, node, last);
        }
    };
    for _ in 0..lives {
        rounds(&store);
        store.close().expect("closed");
        store = open(&device, false, false).expect("open");
    }
    rounds(&store);
    for _ in 0..checkpoints {
        match no_room {
            true => fill_log(&store),
            false => store.checkpoint().expect("checkpoint"),
        }
        rounds(&store);
    }
    store.kill();
    (device, node, last)
}

/// S-8.13: what another pool's log left where a new one is made says nothing, whichever of both has the greater numbers.
#[test]
fn another_pools_log_tells_nothing() {
    for round in 0..8 {
        let (device, ..) = crashed(2, 1, false);
        let o = FormatOptions {
            log_pages: Some(LOG),
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &o).expect("format");
        let store = open(&device, false, false).unwrap_or_else(|e| panic!("{round}: {e}"));
        assert!(store.log_cut().is_none(), "{round}");
    }
}

#[test]
fn a_lost_superblock_is_told_and_its_log_is_left_behind() {
    let plain =
        [(1, 0), (2, 0), (0, 1), (1, 1), (1, 2), (0, 3)].map(|(lives, checkpoints)| (lives, checkpoints, false));
    let no_room = [(0, 1), (1, 1), (0, 2), (1, 3)].map(|(lives, checkpoints)| (lives, checkpoints, true));
    for (lives, checkpoints, no_room) in plain.into_iter().chain(no_room) {
        for zeros in [true, false] {
            let what = format!("{lives} lives, {checkpoints} checkpoints, no room {no_room}, zeros {zeros}");
            let (device, node, last) = crashed(lives, checkpoints, no_room);
            let whole = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&whole, node), last, "{what}");
            drop(whole);
            lose_newest(&device, zeros);
            let refused = open(&device, false, false).map(drop).expect_err(&what).to_string();
            assert!(refused.contains("newest superblock"), "{what}: {refused}");
            let before = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&before, node), last - 3, "{what}");
            assert!(before.log_cut().is_some_and(|cut| cut.superblock.is_some()), "{what}");
            drop(before);
            let store = open(&device, false, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(
                store.history().events(0).iter().filter(|e| e.place == 6).count(),
                1,
                "{what}"
            );
            round(&store, node, 100);
            store.close().expect("closed");
            for next in [101, 102] {
                let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
                assert_eq!(number(&store, node), next - 1, "{what}");
                round(&store, node, next);
                match next {
                    101 => store.kill(),
                    _ => store.close().expect("closed"),
                }
            }
        }
    }
}

/// The pages of the log that were written behind the newest superblock, in their order.
fn behind_newest(device: &SimDevice) -> Vec<PageNo> {
    let read = |place: u64| {
        let mut page = [0; PAGE];
        device.read(PageNo(place), &mut page).expect("read");
        page
    };
    let slots = (0..4).map(|i| Superblock::read_from_bytes(&read(i * PAGES / 4)[..]).expect("a page"));
    let newest = slots.max_by_key(|sb| sb.generation.get()).expect("a slot");
    let region = newest.log_start.get()..newest.log_start.get() + newest.log_pages.get();
    let heads = region.filter_map(|place| {
        let head = PageHead::read_from_bytes(&read(place)[..PAYLOAD_OFFSET]).expect("a head");
        let is_of_it = head.magic.get() == MAGIC && head.base == newest.generation;
        is_of_it.then_some((head.sequence.get(), PageNo(place)))
    });
    let mut heads: Vec<(u64, PageNo)> = heads.collect();
    heads.sort_unstable_by_key(|(number, _)| *number);
    heads.into_iter().map(|(_, place)| place).collect()
}

/// The first pages that were written behind it are bad, too, by a bit or all of them: any page left tells. S-9.20
#[test]
fn a_lost_superblock_is_told_by_any_page() {
    for (lives, checkpoints) in [(1, 0), (0, 1), (1, 2)] {
        for (bad, bits) in [(1, 1), (1, 2), (1, 0), (2, 0), (2, 1)] {
            let what = format!("{lives} lives, {checkpoints} checkpoints, {bad} pages bad, {bits} bits");
            let (device, node, last) = crashed(lives, checkpoints, false);
            let log = behind_newest(&device);
            assert!(log.len() > bad, "{what}: {log:?}");
            for place in &log[..bad] {
                let mut page = [0; PAGE];
                device.read(*place, &mut page).expect("read");
                match bits {
                    0 => page.fill(0xA5),
                    bits => (0..bits).for_each(|bit| page[100 + 1000 * bit] ^= 0x10),
                }
                device.write(*place, &page, Class::Plog).expect("write");
            }
            lose_newest(&device, true);
            let refused = open(&device, false, false).map(drop).expect_err(&what).to_string();
            assert!(refused.contains("newest superblock"), "{what}: {refused}");
            let before = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&before, node), last - 3, "{what}");
            assert!(before.log_cut().is_some_and(|cut| cut.superblock.is_some()), "{what}");
            assert!(before.begin_writing().is_err(), "{what}");
            drop(before);
            let store = open(&device, false, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            round(&store, node, 100);
            store.kill();
            let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&store, node), 100, "{what}");
        }
    }
}

/// Both slots of the newest superblock hold one that is older than the other two.
fn drop_newest(device: &SimDevice) {
    let slots = slots(device);
    let newest = slots.iter().map(|(generation, ..)| *generation).max().expect("a slot");
    let before = slots.iter().find(|(generation, ..)| generation + 1 == newest);
    let mut older = Superblock::read_from_bytes(&before.expect("the one before").2[..]).expect("a page");
    older.generation = (newest - 2).into();
    older.crc = keepfs_codes::crc64::full(&older.as_bytes()[..CRC_OFFSET]).into();
    for (_, place, _) in slots.iter().filter(|(generation, ..)| *generation == newest) {
        device
            .write(*place, older.as_bytes(), Class::Superblock)
            .expect("write");
    }
}

/// The page of the log before this one.
fn page_before(device: &SimDevice, place: PageNo) -> PageNo {
    let sb = Superblock::read_from_bytes(&slots(device)[0].2[..]).expect("a page");
    let start = sb.log_start.get();
    PageNo(start + (place.0 - start + LOG - 1) % LOG)
}

/// S-9.29: the device dropped the newest superblock, its slots hold an older one, and one page of the log is bad: the first behind it, or
/// the last that its checkpoint carried over.
#[test]
fn a_dropped_superblock_is_told_behind_a_bad_page() {
    for (lives, checkpoints, no_room) in [(1, 0, false), (0, 1, false), (1, 2, false), (0, 1, true), (1, 2, true)] {
        for (is_first, how) in (0..5).flat_map(|how| [(true, how), (false, how)]) {
            let what = format!(
                "{lives} lives, {checkpoints} checkpoints, no room {no_room}, the first {is_first}, bad as {how}"
            );
            let (device, node, last) = crashed(lives, checkpoints, no_room);
            let first = behind_newest(&device)[0];
            drop_newest(&device);
            let place = if is_first { first } else { page_before(&device, first) };
            let mut page = [0; PAGE];
            device.read(place, &mut page).expect("read");
            match how {
                0 => page[1996] ^= 0x10,
                1 => page[PAGE - 3] ^= 0x10,
                2 => [100, 2000].into_iter().for_each(|at| page[at] ^= 0x10),
                3 => page.fill(0),
                _ => page.fill(0xA5),
            }
            device.write(place, &page, Class::Plog).expect("write");
            let refused = open(&device, false, false).map(drop).expect_err(&what).to_string();
            assert!(refused.contains("newest superblock"), "{what}: {refused}");
            let found = check(&*device).findings;
            let is_told =
                |found: &Finding| matches!(found, Finding::SuperblockNewer { .. } | Finding::SuperblockLost { .. });
            assert!(found.iter().any(is_told), "{what}: {found:?}");
            let before = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&before, node), last - 3, "{what}");
            drop(before);
            let store = open(&device, false, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            round(&store, node, 100);
            store.kill();
            let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&store, node), 100, "{what}");
        }
    }
}

/// Flips a bit of each slot for which `is_it` says so of its generation and of the newest one; how many these are.
fn flip(device: &SimDevice, bit: usize, is_it: fn(u64, u64) -> bool) -> usize {
    let slots = slots(device);
    let newest = slots.iter().map(|(generation, ..)| *generation).max().expect("a slot");
    let hit = slots
        .into_iter()
        .filter(|(generation, ..)| *generation > 0 && is_it(*generation, newest));
    let hit = hit.zip(0..).map(|((_, place, mut page), nth)| {
        let bit = (bit + 4099 * nth) % (8 * PAGE);
        page[bit / 8] ^= 1 << (bit % 8);
        device.write(place, &page, Class::Superblock).expect("write");
    });
    hit.count()
}

/// The slots whose checksum is wrong as they stand.
fn wrong_slots(device: &SimDevice) -> usize {
    let is_wrong = |i: &u64| {
        let mut page = [0; PAGE];
        device.read(PageNo(i * PAGES / 4), &mut page).expect("read");
        keepfs_codes::crc64::full(&page[..CRC_OFFSET]).to_le_bytes() != page[CRC_OFFSET..]
    };
    (0..4).filter(is_wrong).count()
}

/// What is told of wrong bits in slots: verdict and deed.
fn told(store: &Store) -> Vec<(u8, u8)> {
    let events = store.history().events(0).into_iter();
    let of_slots = events.filter(|event| event.place == 11);
    of_slots.map(|event| (event.verdict, event.done)).collect()
}

/// S-2.27: a wrong bit in each slot of the newest superblock, or in all four: what was synced since is there, for reading and writing,
/// it is told, and the pool has four whole superblocks when it is closed.
#[test]
fn a_wrong_bit_in_each_slot_costs_nothing() {
    let newest: fn(u64, u64) -> bool = |generation, newest| generation == newest;
    for (nth, bit) in (0..8 * 700)
        .step_by(461)
        .chain([8 * 2000, 8 * CRC_OFFSET, 8 * PAGE - 1])
        .enumerate()
    {
        for (lives, checkpoints, hit) in [(1, 0, newest), (1, 1, newest), (0, 2, |_, _| true)] {
            let what = format!("{lives} lives, {checkpoints} checkpoints, bit {bit}");
            let (device, node, last) = crashed(lives, checkpoints, nth % 2 == 1);
            let count = flip(&device, bit, hit);
            assert!(count >= 2, "{what}");
            let reader = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(
                (number(&reader, node), told(&reader)),
                (last, vec![(1, 1); count]),
                "{what}"
            );
            assert!(
                reader.log_cut().is_none() && reader.superblocks_lost().is_none(),
                "{what}"
            );
            reader.begin_writing().unwrap_or_else(|e| panic!("{what}: {e}"));
            reader.kill();
            drop(reader);
            let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(number(&store, node), last, "{what}");
            let before = told(&store);
            round(&store, node, 100);
            store.close().expect("closed");
            drop(store);
            assert_eq!(wrong_slots(&device), 0, "{what}");
            let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!((number(&store, node), told(&store)), (100, before), "{what}");
        }
    }
}
