//! Any byte of any kind of metablock, stray writes of 1 to 64 bytes, in memory and at rest: repaired, or an error of exactly
//! that metablock, never silent (R-5; S-15.14, S-15.16, S-15.17, S-4.6).

use super::*;
use crate::{Meaning, Protection, Ref, Source, Txn};
use keepfs_format::MetaId;
use keepfs_format::bitmap::{self, TOTALS};
use keepfs_format::history::Event;
use keepfs_format::plog::Run;
use keepfs_format::{Kind, PAGE, Space, inode};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use keepfs_pool::events::Done;
use keepfs_pool::events::Seen;
use keepfs_pool::options::Rungs;
use parking_lot::Mutex;
use std::sync::Arc;

mod moving;

const CODES: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];
const OWNER: u64 = 7;
/// Bytes of a stray write; 0 is one flipped bit.
const LENGTHS: [usize; 6] = [0, 1, 8, 17, 40, 64];

struct World {
    device: Arc<RamDevice>,
    store: Arc<Store>,
    nodes: Vec<(Ref, Meaning)>,
}

/// A new pool with one metablock of each kind.
fn filled(device: Arc<dyn Device>, code: Protection, rungs: Rungs) -> (Arc<Store>, Vec<(Ref, Meaning)>) {
    let store = opened(device, code, rungs);
    let kinds = [
        (Kind::DirLeaf, Meaning::Dirent),
        (Kind::DirIndex, Meaning::DirNode),
        (Kind::BlockMap, Meaning::MapEntry),
        (Kind::Xattr, Meaning::Xattr),
    ];
    let made = store.transact::<_, Error>(|t| {
        let mut nodes = vec![(Ref::inode_block(t.new_ino()?), Meaning::Inode)];
        for (kind, meaning) in kinds {
            nodes.push((t.new_node(kind, 0, OWNER)?, meaning));
        }
        t.share_pages(Run { start: 3000, count: 3 })?;
        Ok(nodes)
    });
    (store, made.expect("made"))
}

fn world(code: Protection, rungs: Rungs) -> World {
    let device = Arc::new(RamDevice::new(4096));
    let (store, nodes) = filled(device.clone(), code, rungs);
    let world = World { device, store, nodes };
    world.change(1);
    world.store.sync().expect("sync");
    world.change(2);
    world
}

impl World {
    /// Puts bytes at several places of every node.
    fn change(&self, salt: u8) {
        let changed = self.store.transact::<_, Error>(|t| {
            for (r, meaning) in &self.nodes {
                for at in [40usize, 333, 2048, 4000] {
                    let bytes: Vec<u8> = (0..60).map(|i: u8| i.wrapping_mul(salt) ^ at as u8).collect();
                    t.put(*r, at, &bytes, *meaning)?;
                }
            }
            t.share_pages(Run { start: 3001, count: 2 })?;
            Ok(())
        });
        changed.expect("changed");
    }

    /// One of every kind of metablock.
    fn ids(&self) -> Vec<MetaId> {
        let spaces = [Space::Pages, Space::NodeNumbers, Space::InodeNumbers];
        let mut ids: Vec<MetaId> = self.nodes.iter().map(|(r, _)| r.id).collect();
        ids.extend(spaces.map(|space| MetaId::new(space, 0)));
        ids.extend([TOTALS, bitmap::share(3000).0]);
        ids
    }

    fn content(&self, id: MetaId) -> Result<[u8; PAGE], Error> {
        let pin = self.store.fetch(id)?;
        let mut copy = [0; PAGE];
        self.store.verified_copy(&pin, &mut copy)?;
        Ok(copy)
    }

    /// Somebody writes into the frame: `len` bytes that all differ from what stands there, or one bit.
    fn stray(&self, id: MetaId, right: &[u8; PAGE], at: usize, len: usize) {
        let pin = self.store.fetch(id).expect("pin");
        let end = (at + len.max(1)).min(PAGE);
        let mask = if len == 0 { 0x10 } else { 0xFF };
        let bytes: Vec<u8> = right[at..end].iter().map(|b| b ^ mask).collect();
        self.store.frames.arena.stray(pin.frame, at, &bytes);
    }
}

/// What became of the injections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    repaired: usize,
    fenced: usize,
    ended: usize,
    silent: usize,
}

impl Tally {
    fn count(&mut self, found: &Result<[u8; PAGE], Error>, right: &[u8; PAGE]) {
        match found {
            Ok(bytes) if bytes == right => self.repaired += 1,
            Ok(_) => self.silent += 1,
            Err(Error::Fenced { .. }) => self.fenced += 1,
            Err(_) => self.ended += 1,
        }
    }
}

/// State of the frames while somebody writes into them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Clean,
    Dirty,
    Open,
}

/// Every kind, offsets `step` apart: a flipped bit, and a stray write of the lengths in turn.
fn sweep(world: &World, step: usize, tally: &mut Tally) {
    for (nth, id) in world.ids().into_iter().enumerate() {
        let right = world.content(id).expect("right");
        for (n, at) in (nth..PAGE).step_by(step).enumerate() {
            for len in [0, LENGTHS[1 + n % (LENGTHS.len() - 1)]] {
                world.stray(id, &right, at, len);
                tally.count(&world.content(id), &right);
            }
        }
    }
}

fn matrix(code: Protection, phase: Phase, rungs: Rungs, step: usize) -> Tally {
    let mut tally = Tally::default();
    let world = world(code, rungs);
    match phase {
        Phase::Dirty => sweep(&world, step, &mut tally),
        Phase::Clean => {
            world.store.checkpoint().expect("checkpoint");
            sweep(&world, step, &mut tally);
        }
        Phase::Open => {
            let end = world.store.transact::<(), Error>(|t| {
                for (r, meaning) in &world.nodes {
                    t.put(*r, 2200, b"of an open transaction", *meaning)?;
                    t.put(*r, 710, b"over it", *meaning)?;
                }
                t.share_pages(Run { start: 3000, count: 1 })?;
                sweep(&world, step, &mut tally);
                Ok(())
            });
            if tally.fenced + tally.ended == 0 {
                end.expect("commits");
            }
        }
    }
    // The pool is as it was meant, and goes on.
    if tally.fenced + tally.ended == 0 {
        let right: Vec<[u8; PAGE]> = world
            .ids()
            .iter()
            .map(|id| world.content(*id).expect("right"))
            .collect();
        world.store.close().expect("close");
        let again = Store::open(world.device.clone(), &world.store.ground.options).expect("open");
        for (r, _) in &world.nodes {
            let at = world.ids().iter().position(|id| *id == r.id).expect("listed");
            let mut found = [0; 3000];
            again.view().read(*r, 64, &mut found).expect("read");
            assert!(found[..] == right[at][64..3064], "{code} {phase:?}: {}", r.id);
        }
    }
    tally
}

/// Offsets so far apart are tried; with KEEPFS_EVERY_BYTE=1 in the environment, every one.
fn step(sampled: usize) -> usize {
    match std::env::var_os("KEEPFS_EVERY_BYTE") {
        Some(_) => 1,
        None => sampled,
    }
}

/// R-5 in memory: every code, clean, dirty and with an open transaction; pools on as many threads as there are processors.
#[test]
fn strays_in_memory_are_repaired_in_every_state() {
    let phases = [Phase::Clean, Phase::Dirty, Phase::Open];
    let all = CODES.into_iter().flat_map(|code| phases.map(|phase| (code, phase)));
    let todo = Mutex::new(all);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = || todo.lock().next();
    let worker = || {
        while let Some((code, phase)) = next() {
            let tally = matrix(code, phase, Rungs::ALL, step(509));
            assert_eq!(
                (tally.silent, tally.ended, tally.fenced),
                (0, 0, 0),
                "{code} {phase:?}: {tally:?}"
            );
            assert!(tally.repaired >= 160, "{tally:?}");
            println!("{code} {phase:?}: {tally:?}");
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
}

/// The same with the rung of the witness alone, whose bytes are newer than any copy on the device.
#[test]
fn the_witness_alone_repairs_in_every_state() {
    for phase in [Phase::Clean, Phase::Dirty, Phase::Open] {
        let tally = matrix(Protection::Crc, phase, Rungs::LOG, step(307));
        assert_eq!(
            (tally.silent, tally.ended, tally.fenced),
            (0, 0, 0),
            "{phase:?}: {tally:?}"
        );
    }
}

/// Each of the other rungs with all others off: nothing is ever silent. The code mends strays wherever its parity reaches and nobody has just
/// written; the device what nobody has changed since, and nothing that is newer than its copy.
#[test]
fn the_code_and_the_device_alone_are_never_silent() {
    for phase in [Phase::Clean, Phase::Dirty, Phase::Open] {
        for (code, rungs) in [(Protection::Pcrc, Rungs::CODE), (Protection::Crc, Rungs::DEVICE)] {
            let tally = matrix(code, phase, rungs, step(1021));
            let all = tally.repaired + tally.fenced + tally.ended + tally.silent;
            // Of the ten metablocks the bitmap of pages alone was not changed; five have one owner each and are fenced.
            let expected = match (rungs, phase) {
                (Rungs::CODE, _) | (_, Phase::Clean) => (all, 0, 0),
                _ => (all / 10, all / 2, all * 4 / 10),
            };
            assert_eq!(
                (tally.repaired, tally.fenced, tally.ended),
                expected,
                "{phase:?} {rungs:?}: {tally:?}"
            );
        }
    }
}

/// A rung that does not ask one of its sources is found by these sweeps (`cargo test -p keepfs-store --features planted --lib
/// ladder -- --test-threads 1`: what is planted is planted in the process).
#[cfg(feature = "planted")]
#[test]
fn a_rung_that_ignores_something_is_found() {
    use keepfs_vault::planted::{Rung, plant_rung};
    for bug in Rung::ALL {
        let world = world(
            Protection::Crc,
            match bug {
                Rung::DirtyReadAgain => Rungs::DEVICE,
                _ => Rungs::LOG,
            },
        );
        let mut tally = Tally::default();
        // Nobody looks at what is right with the bug planted.
        let right: Vec<_> = world
            .nodes
            .iter()
            .map(|(r, _)| (r.id, world.content(r.id).expect("right")))
            .collect();
        let tried = world.store.transact::<(), Error>(|t| {
            for (r, meaning) in &world.nodes {
                t.put(*r, 2200, b"of an open transaction", *meaning)?;
            }
            plant_rung(Some(*bug));
            for (id, right) in &right {
                let mut right = *right;
                right[2200..2222].copy_from_slice(b"of an open transaction");
                world.stray(*id, &right, 2100, 64);
                tally.count(&world.content(*id), &right);
            }
            plant_rung(None);
            Ok(())
        });
        plant_rung(None);
        let _ = tried;
        assert!(tally.repaired < world.nodes.len(), "{}: {tally:?}", bug.word());
    }
}

/// R-5 at rest, every offset: each copy in turn, a bit or a stray write in one of every kind of metablock at a time.
#[test]
fn copies_are_read_around_whatever_is_wrong_with_them() {
    let world = world(Protection::Pcrc, Rungs::ALL);
    world.store.checkpoint().expect("checkpoint");
    let ids = world.ids();
    let mut tried = 0;
    for (n, at) in (0..PAGE).step_by(step(173)).enumerate() {
        for copy in 0..2 {
            let right: Vec<_> = ids.iter().map(|id| world.content(*id).expect("right")).collect();
            for (nth, id) in ids.iter().enumerate() {
                let entry = world
                    .store
                    .home
                    .flash()
                    .locate(&world.store.frames, *id)
                    .expect("map")
                    .expect("lives");
                let page = [entry.first.get(), entry.second.get()][copy];
                world.damage(page, at, LENGTHS[(n + nth) % LENGTHS.len()]);
            }
            world.store.drop_clean_frames();
            for (id, right) in ids.iter().zip(&right) {
                let seen = world.store.check_copies(*id).expect("map");
                assert_eq!((seen.read, seen.bad), (2, 1), "{id} at {at}");
                assert!(world.content(*id).expect("the other copy") == *right, "{id} at {at}");
                tried += 1;
            }
            world.store.checkpoint().expect("writes them anew");
            for id in &ids {
                assert_eq!(world.store.check_copies(*id).expect("map").bad, 0, "{id} at {at}");
            }
        }
    }
    assert!(tried >= 2 * ids.len() * PAGE.div_ceil(step(173)), "{tried}");
    println!("{tried} bad copies");
}

/// R-5 at rest: a bad copy is read around, told, and written anew by the next checkpoint; with both copies bad it is an
/// error of this metablock alone. S-4.6
#[test]
fn copies_on_the_device_are_read_around() {
    let world = world(Protection::Pcrc, Rungs::ALL);
    world.store.checkpoint().expect("checkpoint");
    for (n, id) in world.ids().into_iter().enumerate() {
        for copy in 0..2 {
            let right = world.content(id).expect("right");
            let entry = world
                .store
                .home
                .flash()
                .locate(&world.store.frames, id)
                .expect("map")
                .expect("lives");
            let pages = [entry.first.get(), entry.second.get()];
            world.damage(pages[copy], 100 * n + 3, LENGTHS[n % LENGTHS.len()]);
            world.store.drop_clean_frames();
            let seen = world.store.check_copies(id).expect("map");
            assert_eq!((seen.read, seen.bad), (2, 1), "{id}");
            assert!(world.content(id).expect("the other copy") == right, "{id}");
            let told = world.store.history().events(0);
            assert!(
                told.iter()
                    .any(|e| (e.place, e.id, e.page, e.done) == (2, id.0, pages[copy], Done::OtherCopy as u8)),
                "{id}: {told:?}"
            );
            world.store.checkpoint().expect("writes it anew");
            assert_eq!(world.store.check_copies(id).expect("map").bad, 0, "{id}");
        }
    }
    let (lost, other) = (world.nodes[1].0, world.nodes[2].0);
    let entry = world
        .store
        .home
        .flash()
        .locate(&world.store.frames, lost.id)
        .expect("map")
        .expect("lives");
    let is_told = |e: &Event| (e.place, e.id, e.done) == (2, lost.id.0, Done::Nothing as u8);
    let turn_over = |is_right: bool| {
        for page in [entry.first, entry.second] {
            world.damage(page.get(), 64, 8);
        }
        world.store.drop_clean_frames();
        assert_eq!(world.content(lost.id).is_ok(), is_right);
        world.store.history().events(0).into_iter().filter(is_told).count()
    };
    let told = turn_over(false);
    assert!(told > 0);
    world.store.drop_clean_frames();
    assert!(matches!(world.content(lost.id), Err(Error::DamagedOne { .. })));
    assert_eq!(turn_over(true), told, "S-18.6: the same once more is no event");
    assert!(turn_over(false) > told, "S-18.8: it was right in between");
    assert!(world.content(other.id).is_ok() && world.store.fault().is_none());
    world.store.checkpoint().expect("all else goes on");
    let listed = world.store.history().damage();
    assert!(
        listed
            .iter()
            .any(|d| (d.id, d.done) == (lost.id.0, Done::Nothing as u8)),
        "{listed:?}"
    );
}

impl World {
    fn damage(&self, page: u64, at: usize, len: usize) {
        let mut bytes = [0; PAGE];
        self.device.read(PageNo(page), &mut bytes).expect("read");
        let end = (at + len.max(1)).min(PAGE);
        bytes[at..end].iter_mut().for_each(|b| *b ^= 0x10);
        self.device.write(PageNo(page), &bytes, Class::Metadata).expect("write");
    }
}

/// S-15.25, S-4.8: redo that is damaged takes the witness away; the metablock is fenced, and lost with the change that only redo
/// had, the others go on, and the pool recovers from a crash at any time after.
#[test]
fn a_fenced_metablock_loses_what_only_damaged_redo_had() {
    let world = world(Protection::Crc, Rungs::ALL);
    world.store.sync().expect("in the log");
    let (fenced, other) = (world.nodes[4].0, world.nodes[2].0);
    let put = |r: Ref, bytes: &[u8], meaning| {
        world
            .store
            .transact::<_, Error>(|t| Ok(t.put(r, 1000, bytes, meaning)?))
    };
    world.damage_redo();
    let right = world.content(fenced.id).expect("right");
    world.stray(fenced.id, &right, 2000, 64);
    assert!(matches!(world.content(fenced.id), Err(Error::Fenced { .. })));
    put(other, b"it goes on", Meaning::DirNode).expect("put");
    world.store.sync().expect("sync");
    assert!(world.store.fault().is_none());
    assert!(put(fenced, b"no", Meaning::Xattr).is_err());
    world.store.kill();
    let again = Store::open(world.device.clone(), &world.store.ground.options).expect("recovers");
    let mut found = [0; 10];
    again.view().read(other, 1000, &mut found).expect("read");
    assert_eq!(&found, b"it goes on");
    let told = again.view().read(fenced, 1000, &mut found);
    assert!(
        matches!(&told, Err(crate::Stop::Error(Error::DamagedOne { what, .. })) if what.contains("is lost")),
        "{told:?}"
    );
    let entry = again
        .home
        .flash()
        .locate(&again.frames, fenced.id)
        .expect("map")
        .expect("lives");
    assert!(entry.is_lost(), "{entry:?}");
    assert!(again.history().events(0).iter().any(|e| e.done == Done::Fenced as u8));
}

impl World {
    /// Somebody writes what neither the CRC-64 nor parity sees: its polynomial, in two lines, so that these cancel.
    fn hidden(&self, id: MetaId, right: &[u8; PAGE], at: usize) {
        let pin = self.store.fetch(id).expect("pin");
        let mut wrong = *right;
        let change = (1u128 << 63 | 0x9A6C_9329_AC4B_C9B5 << 64).to_le_bytes();
        for at in [at, at + 5 * 64] {
            wrong[at..at + 16].iter_mut().zip(change).for_each(|(b, xor)| *b ^= xor);
        }
        assert_eq!(keepfs_codes::crc64::full(&wrong), keepfs_codes::crc64::full(right));
        self.store.frames.arena.stray(pin.frame, at, &wrong[at..at + 336]);
    }

    fn told_last(&self) -> (Seen, Done) {
        let (damage, done) = self.store.damages().pop().expect("told");
        (damage.seen, done)
    }
}

/// M-23, S-15.18, S-15.23, S-15.28: a change that was solved for is told with its place and undone, in every kind of metablock.
#[test]
fn hidden_changes_are_repaired_in_every_state() {
    for code in [Protection::Crc, Protection::Pcrc] {
        let world = world(code, Rungs::ALL);
        for is_clean in [false, true] {
            if is_clean {
                world.store.checkpoint().expect("checkpoint");
            }
            for id in world.ids() {
                let right = world.content(id).expect("right");
                world.hidden(id, &right, 1024);
                assert!(world.content(id).expect("mended") == right, "{code} {id}");
                let (seen, done) = world.told_last();
                let Seen::StrayWrite { offset, new, .. } = seen else {
                    panic!("{code} {id}: {seen:?}");
                };
                assert_eq!((offset, new.len(), done), (1031, 329, Done::Rebuilt), "{code} {id}");
            }
        }
    }
}

/// The keyed sum itself: the bytes are right, and the witness says so.
#[test]
fn a_keyed_sum_that_somebody_changed_is_made_anew() {
    let world = world(Protection::Pcrc, Rungs::ALL);
    for id in world.ids() {
        let right = world.content(id).expect("right");
        let frame = world.store.fetch(id).expect("pin").frame;
        world.store.frames.arena.damage_keyed(frame, 1 << 17);
        assert!(world.content(id).expect("mended") == right, "{id}");
        assert_eq!(world.told_last(), (Seen::Sum, Done::SumsRebuilt), "{id}");
    }
}

/// Where nobody knows what should stand there: the metablock is fenced, the checkpoint goes on without it, and the
/// superblock has what the log tells.
#[test]
fn a_hidden_change_that_nobody_can_mend_is_fenced() {
    let world = world(Protection::Pcrc, Rungs::CODE);
    let (fenced, _) = world.nodes[4];
    let right = world.content(fenced.id).expect("right");
    world.hidden(fenced.id, &right, 1024);
    world.store.checkpoint().expect("goes on");
    assert_eq!(world.told_last(), (Seen::Hidden, Done::Fenced));
    assert!(matches!(world.content(fenced.id), Err(Error::Fenced { .. })));
    let entry = world
        .store
        .home
        .flash()
        .locate(&world.store.frames, fenced.id)
        .expect("map")
        .expect("lives");
    let mut at_rest = [0; PAGE];
    world
        .device
        .read(PageNo(entry.first.get()), &mut at_rest)
        .expect("read");
    assert!(at_rest == right);
}

/// What is wrong with inodes is told of these inodes, by their slots; with all that live if the metablock is fenced, and then up to
/// which transaction it is whole. S-18.6, S-15.26
#[test]
fn damaged_inodes_are_named_one_by_one() {
    let world = world(Protection::Crc, Rungs::ALL);
    let inodes = MetaId::new(Space::Inodes, 0);
    world.lives(&[2, 3, 5]);
    let right = world.content(inodes).expect("right");
    let listed = || -> Vec<(u64, u64, u64, u32)> {
        let list = world.store.history().damage().into_iter();
        let list = list.filter(|entry| entry.id == inodes.0);
        list.map(|entry| (entry.inode, entry.from, entry.length, entry.count))
            .collect()
    };
    let slot = |ino: u64| inode::offset_of(ino);
    world.stray(inodes, &right, slot(3) + 250, 32);
    assert!(world.content(inodes).expect("mended") == right);
    assert_eq!(listed(), [(3, slot(3) as u64, 256, 1), (4, slot(4) as u64, 256, 1)]);
    // What lies behind the slots is nobody's.
    world.stray(inodes, &right, slot(14) + 240, 32);
    assert!(world.content(inodes).expect("mended") == right);
    assert_eq!(listed()[2..], [(0, 0, 4096, 1)]);
    world.store.history().clear_damage();
    let damaged = world.damage_redo();
    world.stray(inodes, &right, slot(3), 64);
    assert!(matches!(world.content(inodes), Err(Error::Fenced { .. })));
    assert_eq!(listed(), [2, 3, 5].map(|ino| (ino, slot(ino) as u64, 256, 1)));
    let event = world.store.history().events(0).pop().expect("told");
    let whole = format!(
        "committed up to {}, device and log tell all up to {}",
        world.store.last_seq(),
        damaged - 1
    );
    assert!(event.text.contains(&whole), "{whole}: {}", event.text);
}

impl World {
    /// These inodes live in metablock 0.
    fn lives(&self, inodes: &[u64]) {
        let r = Ref::inode_block(0);
        let done = self.store.transact::<_, Error>(|t| {
            for ino in inodes {
                t.put(r, inode::offset_of(*ino), &inode::LIVE.to_le_bytes(), Meaning::Inode)?;
            }
            Ok(())
        });
        done.expect("put");
    }

    /// Damages the redo of one more transaction; its number.
    fn damage_redo(&self) -> u64 {
        let (r, meaning) = self.nodes[4];
        let put = |t: &mut Txn<'_>| Ok(t.put(r, 1000, b"only in redo", meaning)?);
        self.store.transact::<_, Error>(put).expect("put");
        let region = self.store.staging();
        let mut all = vec![0; region.bytes()];
        region.load(0, &mut all);
        region.xor_u8(all.windows(12).position(|w| w == b"only in redo").expect("redo"), 1);
        self.store.last_seq()
    }
}
