//! What one life of a pool wrote and lost is not found behind what the next one writes (SPEC S-8.3, S-9.14).

use keepfs_media::{Class, PageNo};
use keepfs_store::{Error, FormatOptions, Store, StoreOptions};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Event, SimDevice};
use std::sync::Arc;

fn open(image: Image) -> (Arc<SimDevice>, Arc<Store>) {
    let device = Arc::new(SimDevice::over(image));
    let o = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &o).expect("open");
    (device, store)
}

/// A pool that no log lies in.
fn formatted() -> Image {
    let device = Arc::new(SimDevice::new(4096));
    let o = FormatOptions {
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    device.image()
}

fn stage(store: &Store, index: u64, bytes: &[u8]) {
    store
        .transact::<_, Error>(|t| Ok(t.stage(5, index, 1, None, 0, bytes)?))
        .expect("stage");
}

fn staged(store: &Store, index: u64) -> Option<u8> {
    let mut page = [0; 4096];
    let found = store.staged(5, index, &mut page).expect("staged");
    found.then_some(page[0])
}

/// A life: page 0 is staged in full, page 1 with `byte`, and power goes while the group of both is written; of its pages only
/// those from `kept` are left.
fn life(image: Image, byte: u8, kept: core::ops::Range<usize>) -> Image {
    let (device, store) = open(image.clone());
    assert_eq!([staged(&store, 0), staged(&store, 1)], [None, None], "nothing is there");
    stage(&store, 0, &[7; 4096]);
    stage(&store, 1, &[byte; 100]);
    let (before, mut left) = (device.log_len(), device.image());
    store.sync().expect("sync");
    let recording = device.recording();
    let mut groups = recording.log[before..].iter().filter_map(|entry| match &entry.event {
        Event::Write {
            at,
            pages,
            class: Class::Plog,
        } => Some((at.0, pages.clone())),
        _ => None,
    });
    let (at, pages) = groups.next().expect("a group");
    assert_eq!(pages.len(), 2, "of two pages");
    for n in kept {
        left.set(PageNo(at + n as u64), pages[n].clone());
    }
    left
}

/// The second page of a group arrives and the first one does not: nothing is found. The next life begins its group with the
/// same bytes, and only its first page arrives. What the first life's second page says was seen gone.
#[test]
fn a_page_of_a_lost_group_does_not_continue_a_later_one() {
    let lost = life(formatted(), 1, 1..2);
    let spliced = life(lost, 2, 0..1);
    let (_, store) = open(spliced);
    assert_eq!(staged(&store, 1), None, "the second life did not have it");
}
