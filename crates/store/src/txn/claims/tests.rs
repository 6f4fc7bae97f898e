//! Stripes of transactions that are open together, what else changes a stripe, and counts that are owned.

use super::*;
use crate::{Equations, FormatOptions, Near, Purpose, Store, StoreOptions, Totals};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_vault::update::by_hand as update;
use std::sync::Arc;

struct World {
    device: Arc<dyn Device>,
    store: Arc<Store>,
}

impl World {
    fn new() -> World {
        World::of(4096)
    }

    fn of(pages: u64) -> World {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(pages));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        World::on(device)
    }

    fn on(device: Arc<dyn Device>) -> World {
        let options = StoreOptions {
            arena_bytes: 2 << 20,
            tiny_arena: true,
            background: false,
            audit: Equations::NONE,
            ..StoreOptions::default()
        };
        let store = Store::open(device.clone(), &options).expect("open");
        World { device, store }
    }

    fn content(&self, id: MetaId) -> [u8; PAGE] {
        let pin = self
            .store
            .home
            .flash()
            .pin_right(&self.store.frames, id)
            .expect("it is there");
        let mut copy = [0; PAGE];
        self.store.verified_copy(&pin, &mut copy).expect("right");
        copy
    }

    /// Inodes in the stripe of a slot.
    fn inodes(&self, slot: u16) -> u64 {
        let (id, stripe) = self.store.ground.pool.stripe_of(slot);
        let at = bitmap::in_stripe(stripe, TOTAL_INODES);
        u64::from_le_bytes(self.content(id)[at..at + 8].try_into().expect("8"))
    }

    fn count(&self, page: u64) -> u16 {
        let (id, at) = bitmap::share(page);
        u16::from_le_bytes(self.content(id)[at..at + 2].try_into().expect("2"))
    }

    /// An open transaction with a number of an inode more.
    fn with_inode(&self) -> Txn<'_> {
        let _totals = self.store.home.flash().pin_totals(&self.store.frames).expect("totals");
        let _numbers = self.store.fetch(MetaId::new(Space::InodeNumbers, 0)).expect("bitmap");
        let _cradle = self.store.fetch(MetaId::new(Space::Inodes, 0)).expect("inodes");
        let mut txn = Txn::begin(&self.store);
        txn.new_ino().expect("a number");
        txn.catch_up().expect("its stripe");
        txn
    }
}

/// S-7.5, S-13.4: transactions that are open together change a stripe each; what is taken back takes no other's away, and only
/// the sum means something.
#[test]
fn open_transactions_have_a_stripe_each() {
    // In one metablock, and in several.
    [1 << 13, 1 << 16].into_iter().for_each(stripes_of_open_transactions);
}

fn stripes_of_open_transactions(pages: u64) {
    let world = World::of(pages);
    // Bitmaps and the like are there.
    let made = world.store.transact::<_, Error>(|t| Ok(t.new_ino()?)).expect("inode");
    let before = world.store.totals();
    let (one, other) = (world.with_inode(), world.with_inode());
    let slots = [&one, &other].map(|txn| txn.undo.place().0);
    assert_ne!(slots[0], slots[1]);
    assert_eq!(slots.map(|slot| world.inodes(slot)), [2, 1]);
    assert_eq!(world.store.totals(), before, "what is open is not told");
    drop(one);
    assert_eq!(slots.map(|slot| world.inodes(slot)), [1, 1]);
    let Ok(sealed) = other.seal() else { panic!("not sealed") };
    sealed.commit();
    // Freed where they were not made: another slot's stripe has less than nothing.
    let outer = world.with_inode();
    for ino in [made, made + 2] {
        world
            .store
            .transact::<_, Error>(|t| Ok(t.free_ino(ino)?))
            .expect("freed");
    }
    drop(outer);
    let all: Vec<u64> = (0..64).map(|slot| world.inodes(slot)).collect();
    assert!(all.contains(&2_u64.wrapping_neg()), "{all:?}");
    assert_eq!(all.into_iter().fold(0, u64::wrapping_add), before.inodes - 1);
    world.store.transact::<_, Error>(|t| Ok(t.new_ino()?)).expect("inode");
    assert_eq!(world.store.totals(), before);
    world.store.checkpoint().expect("S-17.6");
    world.store.close().expect("closed");
    let again = World::on(world.device);
    assert_eq!(again.store.totals().inodes, before.inodes);
}

/// S-17.6: a stripe that changes while its slot has no transaction, or has another one, is told, and nothing more is written.
#[test]
fn a_stripe_of_another_slot_is_told() {
    let world = World::new();
    world.store.checkpoint().expect("all is right");
    let mut txn = world.with_inode();
    let (slot, _) = txn.undo.place();
    let (id, stripe) = world
        .store
        .ground
        .pool
        .stripe_of(slot + world.store.ground.pool.totals_blocks() as u16);
    let frame = world.store.fetch(id).expect("totals").frame;
    let at = bitmap::in_stripe(stripe, TOTAL_INODES);
    update::put(
        &world.store.frames.arena,
        &mut txn.undo,
        (Group::Bitmap, frame),
        at,
        &[1; 8],
    )
    .expect("the door cannot know");
    let Ok(sealed) = txn.seal() else { panic!("not sealed") };
    sealed.commit();
    let told = world.store.checkpoint().expect_err("refused").to_string();
    assert!(
        told.contains("stripe 1 of Totals:0 is not what its transactions made it"),
        "{told}"
    );
    assert!(world.store.fault().is_some());
}

/// S-17.6: the sum that is kept is what the stripes come to, or is told, and nothing more is written.
#[test]
fn a_sum_of_other_stripes_is_told() {
    let world = World::new();
    let before = world.store.totals();
    world.store.checkpoint().expect("all is right");
    world.store.frames.known.scribble_sum(bitmap::TOTAL_SHARES, 3);
    assert_eq!(world.store.totals().shares, before.shares + 3);
    let told = world.store.checkpoint().expect_err("refused").to_string();
    assert!(told.contains("but its stripes come to"), "{told}");
    assert!(world.store.fault().is_some());
}

/// S-13.4: who meets a count that an open transaction owns is stopped, and gives back what it has taken.
#[test]
fn a_count_has_one_owner() {
    let world = World::new();
    let store = &world.store;
    let reserved = store.reserve(3, Purpose::New, Near::Current).expect("pages");
    let run = reserved.runs()[0];
    assert_eq!(run.count, 3);
    store.transact::<_, Error>(|t| Ok(t.use_pages(run)?)).expect("used");
    reserved.allocated();
    let middle = Run {
        start: run.start + 1,
        count: 1,
    };
    let counts = || [0, 1, 2].map(|i| world.count(run.start + i));
    assert_eq!(counts(), [0; 3]);
    let _here = store.home.flash().pin_bits(store, run).expect("bits");
    let is_stopped = |stop: Option<Stop>| assert!(matches!(stop, Some(Stop::Pressure(Pressure::Owned))), "{stop:?}");
    let mut one = Txn::begin(store);
    assert!(one.share_pages(middle).expect("raised") && one.share_pages(middle).expect("again"));
    assert_eq!(counts(), [0, 2, 0]);
    let mut other = Txn::begin(store);
    is_stopped(other.share_pages(run).err());
    drop(other);
    let mut other = Txn::begin(store);
    is_stopped(other.free_page(middle.start).err());
    drop(other);
    drop(one);
    assert_eq!(counts(), [0; 3], "and what the other ones had taken");
    let mut one = Txn::begin(store);
    assert!(one.share_pages(run).expect("nobody owns them"));
    let Ok(sealed) = one.seal() else { panic!("not sealed") };
    sealed.commit();
    assert_eq!(counts(), [1; 3]);
    store
        .transact::<_, Error>(|t| Ok(t.free_page(middle.start)?))
        .expect("lowered");
    assert_eq!((counts(), store.totals().shares), ([1, 0, 1], 2));
    let mut one = Txn::begin(store);
    one.free_page(middle.start).expect("the last reference");
    let mut other = Txn::begin(store);
    is_stopped(other.share_pages(middle).err());
}

/// S-13.4: who is stopped runs again until the owner is settled, and counts from what it left.
#[test]
fn who_is_stopped_runs_again() {
    let world = World::new();
    let store = &world.store;
    let page = Run { start: 3000, count: 1 };
    let count = 500;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..count {
                    let done = store.transact::<_, Error>(|t| {
                        assert!(t.share_pages(page)?);
                        match round % 5 {
                            0 => Err(Error::NoSpace.into()),
                            _ => Ok(()),
                        }
                    });
                    assert_eq!(done.is_err(), round % 5 == 0);
                }
            });
        }
    });
    assert_eq!(world.count(page.start), 4 * count / 5 * 4);
    store.checkpoint().expect("S-17.6");
}

/// S-7.3: counts of a run stand in several lines and metablocks.
#[test]
fn a_run_of_counts_crosses_lines_and_metablocks() {
    let world = World::of(1 << 14);
    let first = 3 * bitmap::COUNTS - 200;
    let run = Run {
        start: first,
        count: 400,
    };
    for times in 1..=2 {
        let shared = world.store.transact::<_, Error>(|t| Ok(t.share_pages(run)?));
        assert!(shared.expect("shared"));
        for page in first - 1..=first + 400 {
            let right = if (first..first + 400).contains(&page) { times } else { 0 };
            assert_eq!(world.count(page), right, "page {page}");
        }
    }
    let shares = Totals {
        shares: 800,
        ..world.store.totals()
    };
    assert_eq!(world.store.totals(), shares);
}
