//! Damage that is met by two threads in many orders of turns: whoever waits for a frame holds nothing that its owner waits for
//! (S-15.19). Two rules that keep this are broken, one after the other, and each time the search has to find who waits for whom.
//!
//! What waits for a frame gives its turn away at each look at the word; that nobody can go on shows as a search without end.

use super::super::Rule;
use super::super::schedule::{Order, Work, run};
use super::{FOUND_WITHIN, order, orders};
use crate::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Rungs, Source, Store, StoreOptions};
use keepfs_format::{Kind, PAGE, Space, bitmap};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use std::sync::{Arc, OnceLock};

const PAGES: u64 = 1024;
/// Commits of the writer, and looks of the reader, of which some meet.
const COMMITS: usize = 10;
const LOOKS: usize = 40;
/// Orders that are searched if no others are asked for.
const ORDERS: u64 = 1200;
/// A page entry of a node that is read and written, far from its header.
const PLACE: usize = 1500;

struct World {
    store: Arc<Store>,
    node: Ref,
}

fn open(device: Arc<RamDevice>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 1 << 20,
        tiny_arena: true,
        background: false,
        oplog: false,
        guard: Guard::Off,
        audit: Equations::NONE,
        // What is met is asked of the witness, who asks redo and log.
        rungs: Rungs::LOG,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

/// A pool with a node, and the node.
fn image() -> &'static (Vec<[u8; PAGE]>, Ref) {
    static IMAGE: OnceLock<(Vec<[u8; PAGE]>, Ref)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let device = Arc::new(RamDevice::new(PAGES));
        let format = FormatOptions {
            log_pages: Some(64),
            meta_copies: 1,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &format).expect("format");
        let store = open(device.clone());
        let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 7)?));
        store.close().expect("close");
        let page = |page: u64| {
            let mut bytes = [0; PAGE];
            device.read(PageNo(page), &mut bytes).expect("read");
            bytes
        };
        ((0..PAGES).map(page).collect(), node.expect("node"))
    })
}

impl World {
    fn new() -> World {
        let (pages, node) = image();
        let device = Arc::new(RamDevice::new(PAGES));
        for (page, bytes) in (0..).zip(pages) {
            device.write(PageNo(page), bytes, Class::Data).expect("write");
        }
        World {
            store: open(device),
            node: *node,
        }
    }

    /// More than any code mends, in the line that `at` is in.
    fn scribble(&self, r: Ref, at: usize) {
        let pin = self.store.fetch(r.id).expect("pin");
        self.store.frames.arena.stray(pin.frame, at, &[0xA5; 200]);
    }

    fn put(&self, round: usize) {
        let put = self.store.transact::<_, Error>(|t| {
            t.put(self.node, PLACE, &[round as u8; 8], Meaning::Xattr)?;
            // The line of the header, which the commit has no reason to look at.
            self.scribble(self.node, 32);
            Ok(())
        });
        put.expect("put");
    }

    fn read(&self) {
        let mut bytes = [0; 8];
        self.store.view().read(self.node, 64, &mut bytes).expect("read");
        assert_eq!(bytes, [0; 8]);
    }

    /// A reader meets the damage that is under a writer that commits.
    fn beside_a_commit(order: Order) -> Result<(), String> {
        let world = World::new();
        let work: Vec<Work<'_>> = vec![
            Box::new(|| (0..LOOKS).for_each(|_| world.read())),
            Box::new(|| (0..COMMITS).for_each(|round| world.put(round))),
        ];
        run(order, work)?;
        world.sound()
    }

    /// One looks for free numbers, under their lock, in a bitmap that is damaged; another one flips a bit of it.
    fn beside_a_bit(order: Order) -> Result<(), String> {
        let world = World::new();
        let (id, ..) = bitmap::bit(Space::NodeNumbers, 0);
        let bits = Ref::shared(id, Kind::Bitmap);
        let work: Vec<Work<'_>> = vec![
            Box::new(|| {
                // Not the line with the bit.
                world.scribble(bits, 2600);
                let made = world.store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 8)?));
                made.expect("node");
            }),
            Box::new(|| {
                let freed = world.store.transact::<_, Error>(|t| Ok(t.free_node(world.node)?));
                freed.expect("freed");
            }),
        ];
        run(order, work)?;
        assert_eq!(world.store.totals().nodes, 1);
        world.sound()
    }

    fn sound(&self) -> Result<(), String> {
        match (self.store.fault(), self.store.fenced()) {
            (None, 0) => self.store.close().map_err(|e| e.to_string()),
            (fault, fenced) => Err(format!("{fault:?}, {fenced} fenced")),
        }
    }
}

fn all_end(search: fn(Order) -> Result<(), String>) {
    for seed in 0..orders(ORDERS) {
        let order = order(seed, None);
        if let Err(why) = search(order) {
            panic!("{order:?}: {why}");
        }
    }
}

fn found(rule: Rule, search: fn(Order) -> Result<(), String>) {
    let found = (0..FOUND_WITHIN).find_map(|seed| search(order(seed, Some(rule))).err().map(|why| (seed, why)));
    let (seed, why) = found.unwrap_or_else(|| panic!("{rule:?} is broken, and nothing was found"));
    println!("{rule:?}: found by order {seed}: {why}");
    assert!(why.contains("for ever") || why.contains("nobody can go on"), "{why}");
}

/// S-15.19, S-15.16
#[test]
fn a_reader_that_mends_and_a_commit_do_not_wait_for_each_other() {
    all_end(World::beside_a_commit);
}

/// The reader has the frame and waits for the lock of redo; who has that waits for the frame.
#[test]
fn a_commit_that_looks_waits_for_who_mends() {
    found(Rule::LookUnderRedo, World::beside_a_commit);
}

/// S-15.19
#[test]
fn who_looks_for_numbers_and_who_flips_a_bit_do_not_wait_for_each_other() {
    all_end(World::beside_a_bit);
}

/// Who looks for numbers has their lock and waits for the writer; who is one waits for the lock.
#[test]
fn a_writer_that_takes_a_lock_waits_for_who_looks() {
    found(Rule::LockAsWriter, World::beside_a_bit);
}
