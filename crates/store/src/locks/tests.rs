//! Gate, zones, reservations and the barrier of a checkpoint as they are, in many orders of turns (S-10.1, S-11.3, S-11.4).
//!
//! Two writers and a checkpointer share a pool that is nearly full, of zones so small that most reservations look further than
//! the open ones. The oracle: no page has two owners, what its owner wrote is what is there, nobody opens a gate that another has
//! shut, nobody lacks space, of which there is more than all want at a time, and at the end the counts are those of the bitmap. Two rules that keep this are broken one
//! after the other, and each time the search has to find it.
//!
//! What it does not cover: orders of plain atomic words (but those of the gate), weak memory (tests/store/model.rs has the
//! frame word), a locked arena, the background threads, and the layers above the store.

use super::Rule;
use super::schedule::{Order, Work, run};
use crate::error::Stop;
use crate::space::Purpose;
use crate::txn::Txn;
use crate::{Error, FormatOptions, Near, Store, StoreOptions};
use keepfs_format::Kind;
use keepfs_format::plog::Run;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PAGE, PageNo};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

/// A pool of so many pages and zones of so many, of which each has a few pages that are free.
const PAGES: u64 = 1024;
const ZONE: u64 = 16;
const FREE_OF_ZONE: usize = 4;
const ROUNDS: u64 = 20;
/// Of how many locks that could be taken a thread gives its turn away at one; a search goes through them.
const STAYS: [u64; 5] = [3, 10, 30, 100, 300];
/// Orders that are searched if no others are asked for; within so many each broken rule is found.
const ORDERS: u64 = 800;
const FOUND_WITHIN: u64 = 4000;

struct World {
    device: Arc<RamDevice>,
    store: Arc<Store>,
    owners: Mutex<BTreeMap<u64, u64>>,
}

fn pages(runs: &[Run]) -> impl Iterator<Item = u64> {
    let pages = |run: &Run| run.start..run.start + u64::from(run.count);
    runs.iter().flat_map(pages)
}

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn open(device: &Arc<RamDevice>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 1 << 20,
        tiny_arena: true,
        background: false,
        oplog: false,
        guard: crate::Guard::Off,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

/// The pool as it is before each search.
fn image() -> &'static [[u8; PAGE]] {
    static IMAGE: OnceLock<Vec<[u8; PAGE]>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let device = Arc::new(RamDevice::new(PAGES));
        let format = FormatOptions {
            zone_pages: Some(ZONE),
            log_pages: Some(64),
            meta_copies: 1,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &format).expect("format");
        let store = open(&device);
        let world = World::of(device, store);
        let mut filled: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        while let left @ 1.. = world.store.figures().available(Purpose::Claimed) {
            let filler = world
                .store
                .reserve(left.min(64) as u32, Purpose::Claimed, Near::Current);
            let filler = filler.expect("room");
            world.allocate(filler.runs());
            pages(filler.runs()).for_each(|page| filled.entry(page / ZONE).or_default().push(page));
            filler.allocated();
        }
        for (_, pages) in filled {
            let some = pages.into_iter().take(FREE_OF_ZONE);
            let runs: Vec<Run> = some.map(|start| Run { start, count: 1 }).collect();
            let freed = world.store.transact::<_, Error>(|txn| Ok(free_all(txn, &runs)?));
            freed.expect("free");
        }
        world.store.close().expect("close");
        let page = |page: u64| {
            let mut bytes = [0; PAGE];
            world.device.read(PageNo(page), &mut bytes).expect("read");
            bytes
        };
        (0..PAGES).map(page).collect()
    })
}

fn free_all(txn: &mut Txn<'_>, runs: &[Run]) -> Result<(), Stop> {
    pages(runs).try_for_each(|page| txn.free_page(page))
}

impl World {
    fn of(device: Arc<RamDevice>, store: Arc<Store>) -> World {
        World {
            device,
            store,
            owners: Mutex::default(),
        }
    }

    fn new() -> World {
        let device = Arc::new(RamDevice::new(PAGES));
        for (page, bytes) in (0..).zip(image()) {
            device.write(PageNo(page), bytes, Class::Data).expect("write");
        }
        let store = open(&device);
        World::of(device, store)
    }

    fn own(&self, me: u64, runs: &[Run]) {
        for page in pages(runs) {
            let before = self.owners.lock().expect("no panic").insert(page, me);
            assert_eq!(before, None, "page {page} has two owners");
        }
    }

    fn disown(&self, runs: &[Run]) {
        let mut owners = self.owners.lock().expect("no panic");
        owners.retain(|page, _| !pages(runs).any(|given| given == *page));
    }

    fn allocate(&self, runs: &[Run]) {
        let used = self
            .store
            .transact::<_, Error>(|txn| Ok(runs.iter().try_for_each(|run| txn.use_pages(*run))?));
        used.expect("use");
    }

    fn free(&self, me: u64, runs: &[Run]) {
        for page in pages(runs) {
            let mut bytes = [0; PAGE];
            self.device.read(PageNo(page), &mut bytes).expect("read");
            assert_eq!(
                bytes, [me as u8; PAGE],
                "page {page} has other bytes than its owner wrote"
            );
        }
        self.disown(runs);
        let freed = self.store.transact::<_, Error>(|txn| Ok(free_all(txn, runs)?));
        freed.expect("free");
    }

    /// Metadata grows, so that checkpoints need chunks.
    fn grow(&self) {
        let born = self
            .store
            .transact::<_, Error>(|txn| Ok(txn.new_node(Kind::Xattr, 0, 7)?));
        assert!(matches!(born, Ok(_) | Err(Error::NoSpace)), "{born:?}");
    }

    /// Takes pages, writes them, names most of them, frees some.
    fn write(&self, me: u64, mut seed: u64) {
        let mut mine: Vec<Vec<Run>> = Vec::new();
        for _ in 0..ROUNDS {
            let want = 1 + random(&mut seed, 12) as u32;
            self.grow();
            match self.store.reserve(want, Purpose::New, Near::Thread) {
                Ok(reservation) => {
                    let runs = reservation.runs().to_vec();
                    self.own(me, &runs);
                    pages(&runs).for_each(|page| self.store.write_data(page, &[me as u8; PAGE]).expect("write"));
                    if random(&mut seed, 4) > 0 {
                        self.allocate(&runs);
                        reservation.allocated();
                        mine.push(runs);
                    } else {
                        self.disown(&runs);
                    }
                }
                // There is always more than both want (S-11.4).
                Err(error) => panic!("{error}"),
            }
            if mine.len() > 1 + random(&mut seed, 2) as usize {
                self.free(me, &mine.remove(0));
            }
        }
    }

    fn check_point(&self, mut seed: u64) {
        for _ in 0..ROUNDS {
            match random(&mut seed, 4) {
                0 => {
                    let start = random(&mut seed, PAGES - 4 * ZONE);
                    let _ = self
                        .store
                        .home
                        .flash()
                        .discard_free(&self.store, start..start + 4 * ZONE, 1)
                        .expect("discard");
                }
                1 => self.store.sync().expect("sync"),
                _ => self.store.checkpoint().expect("checkpoint"),
            }
        }
    }

    /// One order of turns. Errors: what the oracle found.
    fn search(order: Order) -> Result<(), String> {
        let world = World::new();
        let seed = order.seed;
        let work: Vec<Work<'_>> = vec![
            Box::new(|| world.write(1, seed)),
            Box::new(|| world.write(2, seed + 1000)),
            Box::new(|| world.check_point(seed + 2000)),
        ];
        run(order, work)?;
        let figures = world.store.figures();
        let used = world.store.totals().pages;
        assert_eq!((figures.reserved, figures.free), (0, PAGES - used), "{order:?}");
        world.store.close().expect("close");
        Ok(())
    }
}

fn order(seed: u64, broken: Option<Rule>) -> Order {
    Order {
        seed,
        stays: STAYS[seed as usize % STAYS.len()],
        broken,
    }
}

#[test]
fn no_order_of_turns_gives_a_page_to_two() {
    for seed in 0..orders(ORDERS) {
        let order = order(seed, None);
        if let Err(why) = World::search(order) {
            panic!("{order:?}: {why}");
        }
    }
}

/// How many orders a search goes through: KEEPFS_ORDERS where it is set, else `all`.
fn orders(all: u64) -> u64 {
    let asked = std::env::var("KEEPFS_ORDERS").ok();
    asked.and_then(|orders| orders.parse().ok()).unwrap_or(all)
}

fn found(rule: Rule) {
    let found = (0..FOUND_WITHIN).find_map(|seed| World::search(order(seed, Some(rule))).err().map(|why| (seed, why)));
    let (seed, why) = found.unwrap_or_else(|| panic!("{rule:?} is broken, and nothing was found"));
    println!("{rule:?}: found by order {seed}: {why}");
}

#[test]
fn a_second_owner_is_found() {
    found(Rule::OneOwner);
}

#[test]
fn a_bitmap_used_too_late_is_found() {
    found(Rule::UsedWhileShut);
}

#[cfg(debug_assertions)]
mod held;
mod looks;
