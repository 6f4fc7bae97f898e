//! Pages of the log that the device does not write (S-8.12): at each place, one or two in a row, all of them; with power cuts at
//! every write behind it, recoveries that meet the same pages, and power cuts in those.

use keepfs_format::Kind;
use keepfs_media::PageNo;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_testkit::crash::Sweep;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Faults, Operation, SimDevice, When};
use std::sync::Arc;

/// Pages of the log.
const LOG: u64 = 32;
/// First page of the log.
const START: u64 = 1;
/// Entries of the device's log that are cut at behind a failure: what heals it, and the next syncs.
const BEHIND: usize = 10;

fn open(device: Arc<SimDevice>) -> Result<Arc<Store>, Error> {
    let o = StoreOptions {
        arena_bytes: 1 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &o)
}

/// What becomes of a write that fails: nothing of it arrives, a part, all of it.
#[derive(Clone, Copy, Debug)]
enum Fails {
    Nothing,
    Torn,
    Arrives,
}

const WAYS: [Fails; 3] = [Fails::Nothing, Fails::Torn, Fails::Arrives];

fn faults(fails: Fails, first: u64, pages: u64) -> Faults {
    let when = When::Pages(PageNo(START + first), pages);
    match fails {
        Fails::Nothing => Faults::none().fail(Operation::Write, when),
        Fails::Torn => Faults::none().short_write(when, 3),
        Fails::Arrives => Faults::none().short_write(when, 8 * LOG as usize),
    }
}

/// A store in which each transaction changes a node and a staged page to its number.
struct World {
    device: Arc<SimDevice>,
    store: Arc<Store>,
    node: Ref,
    number: u64,
    /// Entries of the device's log at which a number was answered.
    answered: Vec<(usize, u64)>,
}

impl World {
    fn new() -> World {
        let device = Arc::new(SimDevice::new(4096));
        let o = FormatOptions {
            log_pages: Some(LOG),
            meta_copies: 1,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &o).expect("format");
        let store = open(device.clone()).expect("open");
        let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
        let node = node.expect("new node");
        let mut world = World {
            device,
            store,
            node,
            number: 0,
            answered: Vec::new(),
        };
        world.round().expect("the first sync");
        world
    }

    fn round(&mut self) -> Result<(), Error> {
        self.number += 1;
        let bytes = self.number.to_le_bytes();
        let change = self.store.transact::<_, Error>(|t| {
            t.put(self.node, 64, &bytes, Meaning::Xattr)?;
            Ok(t.stage(5, 1, self.number as u32, None, 0, &bytes)?)
        });
        change.and_then(|()| self.store.sync())?;
        self.answered.push((self.device.log_len(), self.number));
        Ok(())
    }

    /// Events of the log's pages.
    fn told(&self) -> usize {
        self.store.history().events(0).iter().filter(|e| e.place == 6).count()
    }

    /// What was answered for when the device's log had so many entries.
    fn owed(&self, entries: usize) -> u64 {
        let before = self.answered.iter().take_while(|(at, _)| *at <= entries);
        before.last().map_or(0, |(_, number)| *number)
    }
}

/// The number that a pool recovers, which node and staged page agree about.
fn recovered(device: Arc<SimDevice>, node: Ref, what: &dyn Fn() -> String) -> u64 {
    let store = open(device).unwrap_or_else(|e| panic!("{}: {e}", what()));
    let (mut number, mut page) = ([0; 8], [0; 4096]);
    store.view().read(node, 64, &mut number).expect("the node");
    store.staged(5, 1, &mut page).expect("the staged page");
    assert_eq!(page[..8], number, "{}", what());
    store.kill();
    u64::from_le_bytes(number)
}

/// Runs over a log of which some pages cannot be written. Returns the failures met.
fn run(fails: Fails, first: u64, pages: u64) -> usize {
    let mut world = World::new();
    world.device.set_faults(faults(fails, first, pages));
    let mut met = None;
    // Once around the log and more.
    for _ in 0..2 * LOG {
        let before = (world.device.log_len(), world.told());
        let done = world.round();
        done.unwrap_or_else(|e| panic!("{fails:?} at {first}, {}: {e}", world.number));
        if world.told() > before.1 {
            met = met.or(Some(before.0));
        }
    }
    let told = world.told();
    let met = met.unwrap_or_else(|| panic!("{fails:?} at {first}: nothing was told"));
    let recording = world.device.recording();
    for point in Sweep::new(&recording, first).starting_at(met).take(BEHIND) {
        let (at, owed) = (point.plan.position(), world.owed(point.plan.position()));
        for state in point.plan.sample(4) {
            let what = || format!("{fails:?} at {first}, {state}");
            let image = point.content(&state);
            let found = recovered(Arc::new(SimDevice::over(image.clone())), world.node, &what);
            assert!(
                found >= owed && found <= world.owed(at) + 1,
                "{}: {found}, {owed}",
                what()
            );
            again(&image, faults(fails, first, pages), world.node, found, &what);
        }
    }
    world.store.close().expect("close");
    told
}

/// The recovery meets the same pages, and is cut behind each of its first writes: the same is found.
fn again(image: &Image, faults: Faults, node: Ref, found: u64, what: &dyn Fn() -> String) {
    let device = Arc::new(SimDevice::over(image.clone()));
    device.set_faults(faults);
    assert_eq!(
        recovered(device.clone(), node, what),
        found,
        "{} over bad pages",
        what()
    );
    let recording = device.recording();
    for count in 1..recording.log.len().min(3) {
        let cut = Arc::new(SimDevice::over(recording.replay_first(count)));
        assert_eq!(recovered(cut, node, what), found, "{} and after {count}", what());
    }
}

/// S-8.12: one page at each place of the log.
#[test]
fn one_page_is_given_up() {
    for (page, fails) in (0..LOG).zip(WAYS.into_iter().cycle()) {
        assert!(run(fails, page, 1) > 0);
    }
}

/// S-8.12: two in a row.
#[test]
fn two_pages_are_given_up() {
    for (page, fails) in (0..LOG - 1).zip(WAYS.into_iter().cycle().skip(1)) {
        assert!(run(fails, page, 2) > 1);
    }
}

/// S-8.14: where no page can be written writing ends, and what was answered is kept.
#[test]
fn without_a_log_writing_ends() {
    for fails in WAYS {
        let mut world = World::new();
        world.device.set_faults(faults(fails, 0, LOG));
        let ended = (0..2 * LOG).find_map(|_| world.round().err());
        assert!(ended.is_some(), "{fails:?}: it goes on for ever");
        assert!(matches!(world.round(), Err(Error::ReadOnly(_))), "{fails:?}");
        let recording = world.device.recording();
        for point in Sweep::new(&recording, 1).starting_at(world.answered[0].0) {
            let owed = world.owed(point.plan.position());
            for state in point.plan.sample(3) {
                let what = || format!("{fails:?}, {state}");
                let found = recovered(Arc::new(point.image(&state)), world.node, &what);
                assert!(found >= owed, "{}: {found} of {owed}", what());
            }
        }
    }
}

/// S-8.12: the page that tells that a group was flushed cannot be written: nothing is lost, and the next sync goes on behind it.
#[test]
fn an_empty_group_is_given_up() {
    let mut world = World::new();
    world
        .device
        .set_faults(Faults::none().fail_writes_of(keepfs_media::Class::Plog, When::Nth(1)));
    world.store.write_durable().expect("nobody waits for it");
    assert_eq!(world.told(), 1);
    let checkpoints = world.store.stats().checkpoints;
    world.round().expect("the next one");
    assert_eq!(world.store.stats().checkpoints, checkpoints + 1);
    let what = || "behind it".to_owned();
    let cut = Arc::new(SimDevice::over(world.device.image()));
    assert_eq!(recovered(cut, world.node, &what), 2);
}
