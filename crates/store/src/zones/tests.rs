//! Pages that are not in the open zones: what is there is found, and what is in the way is told as what it is (S-11.4).

use super::*;
use crate::reserve::Reservation;
use crate::reserve::gather;
use crate::{FormatOptions, Near, Purpose, StoreOptions};
use core::sync::atomic::AtomicU64;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Access, DeviceError, PageNo};
use keepfs_testkit::hook::{Hooked, Hooks};
use std::sync::Arc;

/// One page that cannot be read; 0: there is none.
#[derive(Default)]
struct Unreadable(AtomicU64);

impl Hooks for Unreadable {
    fn before_read(&self, at: PageNo, bytes: usize) -> Result<(), DeviceError> {
        let page = self.0.load(Ordering::Relaxed);
        match page != 0 && (at.0..at.0 + (bytes / PAGE) as u64).contains(&page) {
            true => Err(DeviceError::Io {
                what: Access::Read,
                page: at,
                device: "a bad one".into(),
                source: std::io::Error::from_raw_os_error(5),
            }),
            false => Ok(()),
        }
    }
}

type World = Arc<Hooked<RamDevice, Unreadable>>;

fn world(pages: u64, zone: u64) -> (World, Arc<Store>) {
    let device = Arc::new(Hooked::new(RamDevice::new(pages), Unreadable::default()));
    let format = FormatOptions {
        zone_pages: Some(zone),
        log_pages: Some(64),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let store = open(&device);
    (device, store)
}

fn open(device: &World) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

fn allocate(store: &Store, reservation: Reservation<'_>) -> Vec<Run> {
    let runs = reservation.runs().to_vec();
    for part in runs.chunks(32) {
        let used = store.transact::<_, Error>(|txn| Ok(part.iter().try_for_each(|run| txn.use_pages(*run))?));
        used.expect("use");
    }
    reservation.allocated();
    runs
}

/// Allocates pages, `want` at a time, until there are not so many; the error that says so.
fn fill(store: &Store, want: u32, purpose: Purpose) -> Error {
    loop {
        match store.reserve(want, purpose, Near::Current) {
            Ok(reservation) => drop(allocate(store, reservation)),
            Err(error) => return error,
        }
    }
}

/// No page is left but what is kept for checkpoints.
fn filled(pages: u64, zone: u64) -> Arc<Store> {
    let (_, store) = world(pages, zone);
    for want in [zone as u32, 1] {
        let refused = fill(&store, want, Purpose::New);
        assert!(matches!(refused, Error::NoSpace), "{refused}");
    }
    store
}

/// Frees what data has in a zone; durably if there is a sync behind it.
fn free_zone(store: &Store, number: u64) -> u64 {
    let (start, len) = store.ground.pool.zone(number);
    let chunks = store
        .home
        .flash()
        .checkpoints
        .keeper
        .lock()
        .homes
        .runs()
        .expect("chunks");
    let is_chunk = |page: u64| {
        let mut runs = chunks.iter();
        runs.any(|run| (run.start..run.start + u64::from(run.count)).contains(&page))
    };
    let taken = store.home.flash().taken(store, start, len).expect("the bitmap");
    let fixed = store.alloc.system.runs_in(start..start + u64::from(len));
    let is_fixed = |page: u64| {
        let mut runs = fixed.iter();
        runs.any(|run| (run.start..run.start + u64::from(run.count)).contains(&page))
    };
    let pages = (start..start + u64::from(len)).filter(|page| taken[(page - start) as usize]);
    let pages: Vec<u64> = pages.filter(|page| !is_chunk(*page) && !is_fixed(*page)).collect();
    let freed = store.transact::<_, Error>(|txn| Ok(pages.iter().try_for_each(|page| txn.free_page(*page))?));
    freed.expect("free");
    pages.len() as u64
}

/// S-11.4: however many zones without a page lie before those that have some.
#[test]
fn pages_are_found_behind_many_full_zones() {
    let store = filled(8192, 64);
    fill(&store, 1, Purpose::Claimed);
    let after = store.alloc.space.zones()[1].0;
    let zones = (LOOKS as u64 + 5..LOOKS as u64 + 40).map(|i| (after + i) % store.ground.pool.zones());
    let freed: u64 = zones.map(|number| free_zone(&store, number)).sum();
    store.sync().expect("sync");
    assert!(freed > 1500, "{freed}");
    assert!(
        store
            .home
            .flash()
            .pick_zone(&store, after, &[])
            .expect("read")
            .is_some()
    );
    let all = store
        .reserve(freed as u32, Purpose::Claimed, Near::Current)
        .expect("there are so many");
    assert_eq!(all.pages(), freed);
}

/// S-11.4: what cannot be read is no lack of space; what can be read is found all the same.
#[test]
fn an_unreadable_bitmap_is_no_lack_of_space() {
    let (device, store) = world(BITS + 4096, 4096);
    // The second bitmap has a bit set, and is not in memory.
    store.home.flash().open_zones(&store, [8, 8]).expect("open");
    allocate(&store, store.reserve(1, Purpose::New, Near::Current).expect("room"));
    store.home.flash().open_zones(&store, [0, 1]).expect("open");
    store.close().expect("close");
    let store = open(&device);
    store.drop_clean_frames();
    let far = MetaId::new(Space::Pages, 1);
    let home = store
        .home
        .flash()
        .locate(&store.frames, far)
        .expect("the map")
        .expect("it has a home");
    device.hooks.0.store(home.first.get(), Ordering::Relaxed);
    let told = fill(&store, 512, Purpose::New);
    assert!(!matches!(told, Error::NoSpace), "{told}");
    assert!(store.figures().free < 2 * 4096 + 512, "{:?}", store.figures());
    assert_eq!(store.figures().reserved, 0);
    device.hooks.0.store(0, Ordering::Relaxed);
    let healed = store.reserve(512, Purpose::New, Near::Current);
    healed.map(drop).expect("it can be read again");
}

/// A zone that is open stays as it is: it is not read, and what is young there is known (S-11.2).
#[test]
fn open_zones_are_not_read_again() {
    let (_, store) = world(2048, 64);
    let [(first, _), (second, _)] = store.alloc.space.zones();
    let waits = || store.stats().barrier.total();
    let before = waits();
    let held = store.reserve(5, Purpose::New, Near::Current).expect("room");
    let young = allocate(&store, store.reserve(3, Purpose::New, Near::Current).expect("room"));
    store.home.flash().open_zones(&store, [second, first]).expect("open");
    assert_eq!(waits(), before, "the gate was shut though nothing was read");
    store.home.flash().open_zones(&store, [first, 9]).expect("open");
    assert_eq!(waits(), before + 1);
    assert_eq!(store.alloc.space.zones().map(|(number, _)| number), [first, 9]);
    let freed = store.transact::<_, Error>(|txn| Ok(txn.free_page(young[0].start)?));
    freed.expect("free");
    assert_eq!(store.figures().quarantined, 0, "it was allocated in the same group");
    let others = store.reserve(40, Purpose::New, Near::Current).expect("room");
    let taken = |page: u64| {
        held.runs()
            .iter()
            .any(|run| (run.start..run.start + u64::from(run.count)).contains(&page))
    };
    let mut pages = others
        .runs()
        .iter()
        .flat_map(|run| run.start..run.start + u64::from(run.count));
    assert!(!pages.any(taken), "{:?} {:?}", held.runs(), others.runs());
}

/// Where the superblock lists one zone twice, no other one counts as open: its pages are found.
#[test]
fn one_open_zone_hides_no_other() {
    let store = filled(2048, 128);
    fill(&store, 1, Purpose::Claimed);
    store.home.flash().open_zones(&store, [9, 9]).expect("open");
    assert_eq!(store.alloc.space.zones().map(|(number, _)| number), [9, 9]);
    let freed = free_zone(&store, 0);
    store.sync().expect("sync");
    assert!(freed > 0);
    let mut claim = store
        .alloc
        .space
        .claim_some(store.alloc.space.holder(), freed as u32, Purpose::Claimed);
    let mut runs = Vec::new();
    store
        .home
        .flash()
        .take_elsewhere(&store, &mut claim, &mut runs)
        .expect("found");
    assert!(runs.iter().any(|run| run.start < 128), "{runs:?}");
}

/// S-10.9, S-11.11: who looks further than the open zones asks for the reserve in the step that takes the count.
#[test]
fn what_is_gathered_leaves_the_reserve() {
    let store = filled(2048, 64);
    let freed = free_zone(&store, 20) as u32;
    store.sync().expect("sync");
    let (left, more) = (store.figures().available(Purpose::New) as u32, freed / 2);
    let holder = store.alloc.space.holder();
    let others = store.reserve(left - more, Purpose::New, Near::Current).expect("room");
    assert!(
        gather(&store, holder, more + 1, Purpose::New)
            .expect("no error")
            .is_none()
    );
    let mine = gather(&store, holder, more, Purpose::New)
        .expect("no error")
        .expect("so many");
    assert_eq!(store.figures().available(Purpose::New), 0);
    assert!(gather(&store, holder, 1, Purpose::New).expect("no error").is_none());
    drop((others, mine));
    assert_eq!(store.figures().reserved, 0);
}

/// S-11.11: a checkpoint takes for its chunks what there is, in open zones too, and makes durable what was freed if need be.
#[test]
fn a_checkpoint_finds_the_last_pages() {
    let store = filled(2048, 64);
    fill(&store, 1, Purpose::Claimed);
    store.home.flash().open_zones(&store, [20, 21]).expect("open");
    let freed = free_zone(&store, 20) + free_zone(&store, 21);
    store.sync().expect("sync");
    let others = store
        .reserve(freed as u32 - 10, Purpose::Claimed, Near::Current)
        .expect("room");
    let mut chunks = Reservation::of(&store, store.alloc.space.holder());
    chunks.add(32).expect("no error");
    assert_eq!(chunks.pages(), 10, "in the open zones");
    drop((chunks, others));
    fill(&store, 1, Purpose::Claimed);
    // All that there is waits for a flush.
    let freed = free_zone(&store, 20);
    assert_eq!(store.figures().quarantined, freed);
    let keeper = store.home.flash().checkpoints.keeper.lock();
    let lead = store.home.flash().log.sync.lead();
    let wanted = keeper.homes.free() + freed / 2;
    assert!(matches!(
        store.home.flash().chunks_of(&store, &keeper, None, wanted, wanted),
        Err(Error::NoSpace)
    ));
    let chunks = store
        .home
        .flash()
        .chunks_of(&store, &keeper, Some(&lead), wanted, wanted)
        .expect("a flush gives them");
    assert_eq!(chunks.pages(), freed / 2);
}
