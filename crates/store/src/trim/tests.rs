//! Tests of discarding: what is free is given back, nothing else, and only when it may be used again.

use super::*;
use crate::{FormatOptions, StoreOptions};
use keepfs_media::PAGE;
use keepfs_media::ram::RamDevice;
use keepfs_testkit::hook::{Hooked, Hooks};
use std::sync::Arc;

const PAGES: u64 = 16_384;

fn store(discard: bool) -> (Arc<RamDevice>, Arc<Store>) {
    let device = Arc::new(RamDevice::new(PAGES));
    Store::format(device.clone(), &FormatOptions::default()).unwrap();
    let options = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        discard,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).unwrap();
    (device, store)
}

/// Allocates and writes `pages` pages; their numbers.
fn fill(store: &Store, pages: u32) -> Vec<u64> {
    let mut all = Vec::new();
    while all.len() < pages as usize {
        let want = (pages - all.len() as u32).min(256);
        let reservation = store.reserve(want, Purpose::New, crate::Near::Current).unwrap();
        let runs = reservation.runs().to_vec();
        for run in &runs {
            let numbers = run.start..run.start + u64::from(run.count);
            for page in numbers.clone() {
                store.write_data(page, &[page as u8 | 1; PAGE]).unwrap();
            }
            store.transact::<_, Error>(|txn| Ok(txn.use_pages(*run)?)).unwrap();
            all.extend(numbers);
        }
        reservation.allocated();
    }
    all
}

fn free(store: &Store, pages: &[u64]) {
    for part in pages.chunks(200) {
        let freed = store.transact::<_, Error>(|txn| Ok(part.iter().try_for_each(|page| txn.free_page(*page))?));
        freed.unwrap();
    }
}

fn is_zero(device: &RamDevice, page: u64) -> bool {
    let mut bytes = [0; PAGE];
    device.read(PageNo(page), &mut bytes).unwrap();
    bytes == [0; PAGE]
}

/// S-11.1: free pages are discarded, pages in use are not, and what was just freed is made durably free before.
#[test]
fn free_pages_are_given_back_and_no_others() {
    let (device, store) = store(false);
    let pages = fill(&store, 3000);
    let (kept, dropped) = pages.split_at(1000);
    free(&store, dropped);
    let free_before = store.figures().free;
    let given = store.trim(0..PAGES, 1).unwrap().unwrap();
    assert!(given >= dropped.len() as u64, "{given}");
    assert!(given <= free_before, "{given} of {free_before}");
    assert!(kept.iter().all(|page| !is_zero(&device, *page)));
    assert!(dropped.iter().all(|page| is_zero(&device, *page)));
    assert_eq!(device.counters().discarded.bytes, given * PAGE as u64);
    // Nothing is held back: the same pages can be had again.
    let figures = store.figures();
    assert_eq!((figures.reserved, figures.free), (0, free_before));
    fill(&store, 2000);
    store.close().unwrap();
}

#[test]
fn the_range_and_the_least_length_are_kept() {
    let (device, store) = store(false);
    let pages = fill(&store, 512);
    // Every second page stays: no run is longer than one page.
    let odd: Vec<u64> = pages.iter().copied().filter(|page| page % 2 == 1).collect();
    free(&store, &odd);
    let (first, last) = (pages[0], pages[pages.len() - 1]);
    assert_eq!(store.trim(first..last + 1, 2).unwrap(), Some(0));
    assert_eq!(store.trim(first..first + 10, 1).unwrap(), Some(5));
    let zeroed: Vec<u64> = pages.iter().copied().filter(|page| is_zero(&device, *page)).collect();
    assert_eq!(zeroed, odd[..5]);
    assert_eq!(store.trim(PAGES..u64::MAX, 1).unwrap(), Some(0));
}

/// S-11.1: a page that was freed by a transaction that is not durable is not free yet.
#[test]
fn what_is_freed_but_not_durably_is_left_alone() {
    let (device, store) = store(false);
    let pages = fill(&store, 64);
    store.sync().unwrap();
    free(&store, &pages);
    // Not through `trim`, which would sync.
    store.home.flash().discard_free(&store, 0..PAGES, 1).unwrap();
    assert!(pages.iter().all(|page| !is_zero(&device, *page)));
    assert_eq!(store.figures().quarantined, 64);
    store.sync().unwrap();
    store.home.flash().discard_free(&store, 0..PAGES, 1).unwrap();
    assert!(pages.iter().all(|page| is_zero(&device, *page)));
}

/// S-11.2: pages that one group allocates and frees are used again before it is cut; a group, cut, ends that.
#[test]
fn what_dies_within_its_group_gives_its_pages_to_the_next() {
    let (_, store) = store(false);
    let pages = fill(&store, 64);
    free(&store, &pages[..32]);
    assert_eq!(store.figures().quarantined, 0);
    assert_eq!(fill(&store, 32), pages[..32]);
    store.checkpoint().unwrap();
    free(&store, &pages);
    assert_eq!(store.figures().quarantined, 64);
    assert!(fill(&store, 64).iter().all(|page| !pages.contains(page)));
}

#[test]
fn with_discard_the_device_is_told_after_a_checkpoint() {
    let (device, store) = store(true);
    let pages = fill(&store, 256);
    store.sync().unwrap();
    free(&store, &pages);
    store.sync().unwrap();
    assert_eq!(device.counters().discarded.operations, 0);
    store.checkpoint().unwrap();
    store.discard_released().unwrap();
    assert!(pages.iter().all(|page| is_zero(&device, *page)));
    // Pages that were used again meanwhile are not touched.
    let again = fill(&store, 256);
    store.discard_released().unwrap();
    assert!(again.iter().all(|page| !is_zero(&device, *page)));
}

/// A device that cannot discard.
struct Deaf;

impl Hooks for Deaf {
    fn before_discard(&self, _: PageNo, _: u64) -> Result<(), DeviceError> {
        Err(DeviceError::NoDiscard {
            device: "a deaf one".into(),
        })
    }
}

#[test]
fn a_device_that_cannot_says_so() {
    let device = Arc::new(Hooked::new(RamDevice::new(PAGES), Deaf));
    Store::format(device.clone(), &FormatOptions::default()).unwrap();
    let store = Store::open(device, &StoreOptions::default()).unwrap();
    assert_eq!(store.trim(0..PAGES, 1).unwrap(), None);
    assert_eq!(store.figures().reserved, 0);
}

#[test]
fn runs_that_touch_become_one() {
    let run = |start, count| Run { start, count };
    let all = merged(vec![run(10, 5), run(0, 3), run(15, 1), run(3, 2), run(12, 2)]);
    assert_eq!(all, [run(0, 5), run(10, 6)]);
}
