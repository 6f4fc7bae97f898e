//! Scrubs of a volume without a thread: what they find, how they are steered, that they go on in another life.

use super::*;
use crate::VolumeOptions;
use keepfs_format::blockmap::PageEntry;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{FormatOptions, RestPlace};
use keepfs_vfs::{Direct, Errno, Ino, NewInode, Vfs, WriteHow};
use std::sync::Arc;

const PAGES: u64 = 100;

struct World {
    device: Arc<RamDevice>,
    volume: Arc<Volume>,
    files: Vec<u64>,
}

fn options() -> VolumeOptions {
    VolumeOptions {
        background: false,
        scrub: ScrubOptions {
            arena_every: Some(Duration::from_secs(300)),
            rest_every: None,
        },
        ..VolumeOptions::default()
    }
}

/// A pool with three files of 100 pages each, everything at rest.
fn world() -> World {
    let device = Arc::new(RamDevice::new(16_384));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut options = options();
    options.store.background = false;
    options.store.arena_bytes = 16 << 20;
    let volume = Volume::open(device.clone(), &options).expect("open");
    let file = |n: u8| {
        let new = NewInode::by_root(0o100_644);
        let entry = volume.mknod(Ino(1), &[b'a' + n], &new).expect("made");
        let bytes = vec![n + 1; PAGES as usize * 4096];
        volume
            .write(entry.attr.ino, 0, &bytes, WriteHow::default())
            .expect("written");
        entry.attr.ino.0
    };
    let files = (0..3).map(file).collect();
    volume.settle().expect("at rest");
    World { device, volume, files }
}

impl World {
    fn entry(&self, ino: u64, index: u64) -> PageEntry {
        let inode = self.volume.see(|view| crate::inode::live(view, ino)).expect("live");
        self.volume.entry_at(ino, &inode, index).expect("entry")
    }

    fn scribble(&self, ino: u64, index: u64) {
        let page = PageNo(self.entry(ino, index).page());
        let mut bytes = [0; 4096];
        self.device.read(page, &mut bytes).expect("read");
        bytes[7] ^= 4;
        self.device.write(page, &bytes, Class::Data).expect("write");
    }

    fn until(&self, wanted: State) -> Record {
        for _ in 0..100_000 {
            let record = self.volume.scrub_record();
            if record.state == wanted {
                return record;
            }
            self.volume.scrub_turn();
        }
        panic!("it never is {wanted:?}: {:?}", self.volume.scrub_record());
    }
}

fn whole() -> Wish {
    Wish {
        arena: true,
        rest: true,
        ..Wish::default()
    }
}

/// S-19.5: a bad data page is found, remembered, and whoever reads it gets EIO; nothing else is disturbed.
#[test]
fn bad_data_is_found_and_remembered() {
    let world = world();
    world.volume.scrub_start(whole()).expect("started");
    let clean = world.until(State::Finished);
    assert_eq!((clean.bad(), clean.lost()), (0, 0));
    assert_eq!(clean.data.pages, 3 * PAGES);
    assert!(clean.metadata.pages > 10 && clean.arena.pages > 5, "{clean:?}");
    assert!(clean.rest_done_s > 0);

    world.scribble(world.files[1], 70);
    world.volume.scrub_start(whole()).expect("started");
    let found = world.until(State::Finished);
    assert_eq!((found.data.bad, found.lost()), (1, 1));
    assert_eq!(world.volume.files_with_lost_data(), 1);
    let mut page = [0; 4096];
    let at = |file: usize, page: u64| (Ino(world.files[file]), page * 4096);
    let (ino, offset) = at(1, 70);
    assert_eq!(world.volume.read(ino, offset, &mut page).expect_err("bad"), Errno::EIO);
    let (ino, offset) = at(1, 71);
    assert!(world.volume.read(ino, offset, &mut page).is_ok());

    // What is known to be damaged alone is looked at again, and heals when it is written.
    world
        .volume
        .write(Ino(world.files[1]), 70 * 4096, &[9; 4096], WriteHow::default())
        .expect("written");
    world.volume.settle().expect("at rest");
    let damaged = Wish {
        rest: true,
        damaged: true,
        ..Wish::default()
    };
    world.volume.scrub_start(damaged).expect("started");
    let healed = world.until(State::Finished);
    assert_eq!((healed.data.pages, healed.bad()), (PAGES, 0));
    assert!((2..10).contains(&healed.metadata.pages), "its own: {healed:?}");
}

/// A part of the tree, and what changed since.
#[test]
fn parts_of_the_tree() {
    let world = world();
    let one = Wish {
        arena: true,
        rest: true,
        top: Some(world.files[2]),
        ..Wish::default()
    };
    world.volume.scrub_start(one).expect("started");
    let record = world.until(State::Finished);
    // Both copies of its inode's metablock and of the root of its block map.
    assert_eq!((record.data.pages, record.metadata.pages), (PAGES, 4));
    assert!((1..4).contains(&record.arena.pages), "{record:?}");
    assert_eq!(record.rest_done_s, 0, "that was not everything");
    let all = Wish {
        rest: true,
        top: Some(1),
        ..Wish::default()
    };
    world.volume.scrub_start(all).expect("started");
    assert_eq!(world.until(State::Finished).data.pages, 3 * PAGES);
    let later = Wish {
        rest: true,
        since_s: Some(world.volume.now().sec + 1000),
        ..Wish::default()
    };
    world.volume.scrub_start(later).expect("started");
    assert_eq!(world.until(State::Finished).data.pages, 0);
}

/// Pause, resume, cancel, and what is refused.
#[test]
fn a_scrub_is_steered() {
    let world = world();
    assert_eq!(world.volume.scrub_pause(), Err(ScrubError::NotRunning));
    assert_eq!(world.volume.scrub_resume(), Err(ScrubError::NothingToResume));
    world.volume.scrub_start(whole()).expect("started");
    assert_eq!(world.volume.scrub_start(whole()), Err(ScrubError::Running));
    world.volume.scrub_turn();
    world.volume.scrub_pause().expect("paused");
    assert_eq!(world.volume.scrub_pause(), Err(ScrubError::Paused));
    let before = world.volume.scrub_record();
    (0..5).for_each(|_| {
        world.volume.scrub_turn();
    });
    assert_eq!(world.volume.scrub_record(), before, "paused");
    world.volume.scrub_resume().expect("resumed");
    assert_eq!(world.until(State::Finished).data.pages, 3 * PAGES);
    world.volume.scrub_start(whole()).expect("started");
    world.volume.scrub_cancel().expect("canceled");
    assert_eq!(world.volume.scrub_record().state, State::Canceled);
}

/// S-19.6: cut after any slice, it goes on in another life where it was, and comes to the same counts.
#[test]
fn a_scrub_goes_on_in_another_life() {
    let world = world();
    world.volume.scrub_start(whole()).expect("started");
    let whole_run = world.until(State::Finished);
    let lives = |slices: usize| {
        world.volume.scrub_start(whole()).expect("started");
        loop {
            (0..slices).for_each(|_| {
                world.volume.scrub_turn();
            });
            let record = world.volume.scrub_record();
            if record.state == State::Finished {
                return record;
            }
            // Another life: only the bytes are left.
            let kept = Record::decode(&record.encode()).expect("a record");
            assert_eq!(kept, record);
            *world.volume.scrubs.now.lock() = Now {
                record: kept,
                ..Now::default()
            };
        }
    };
    for slices in [1, 3] {
        let cut = lives(slices);
        assert_eq!(cut.data, whole_run.data);
        assert_eq!(cut.metadata, whole_run.metadata);
    }
}

/// S-19.7: a limit makes it wait as long as the bytes take; work of others makes it give way.
#[test]
fn a_scrub_waits() {
    let world = world();
    let mut pace = Pace::default();
    let store = world.volume.store();
    assert_eq!(pace.after(store, 64, 0), Duration::ZERO);
    assert_eq!(pace.after(store, 64, 1 << 20), Duration::from_millis(250));
    assert_eq!(pace.after(store, 64, 0), Duration::ZERO);
    world
        .volume
        .write(Ino(world.files[0]), 0, &[1], WriteHow::default())
        .expect("written");
    assert!(pace.after(store, 64, 0) > Duration::ZERO);
    assert_eq!(pace.after(store, 64, 0), Duration::ZERO);
}

/// S-19.7: a limit under which a slice takes days ends with the next one, and nothing is waited for in advance.
#[test]
fn a_limit_that_was_too_low_is_corrected() {
    let world = world();
    world.volume.scrub_limit(1);
    world.volume.scrub_start(whole()).expect("started");
    let (delay, seen) = (world.volume.scrub_turn(), world.volume.scrub_record());
    assert!(delay <= IDLE && seen.active_ms < 60_000, "{delay:?} {seen:?}");
    while world.volume.scrub_record().metadata.pages == 0 {
        world.volume.scrub_turn();
    }
    let seen = world.volume.scrub_record();
    (0..100).for_each(|_| assert_eq!(world.volume.scrub_turn(), IDLE));
    let waited = world.volume.scrub_record();
    assert_eq!(waited.active_ms, seen.active_ms + 100_000);
    assert_eq!(waited.pages(), seen.pages());
    world.volume.scrub_limit(0);
    let mut turns = 0..1000;
    while world.volume.scrub_record().state == State::Running && turns.next().is_some() {
        world.volume.scrub_turn();
    }
    assert_eq!(world.volume.scrub_record().state, State::Finished);
}

/// A volume that takes no changes, be it mounted so or because writing has ended, is scrubbed as any other.
#[test]
fn who_takes_no_changes_is_scrubbed() {
    let mut world = world();
    world.volume.settle().expect("closed");
    drop(world.volume);
    let mut options = options();
    options.background = true;
    options.store.read_only = true;
    world.volume = Volume::open(world.device.clone(), &options).expect("open");
    world.volume.scrub_start(whole()).expect("started");
    while world.volume.scrub_record().state == State::Running {
        std::thread::yield_now();
    }
    assert_eq!(world.volume.scrub_record().state, State::Finished);
    world.volume.unmount().expect("unmount");
}

/// S-19.1: the round of the arena comes to every frame without being asked.
#[test]
fn the_round_comes_by_itself() {
    let mut world = world();
    let mut options = options();
    options.scrub.arena_every = Some(Duration::from_secs(1));
    options.store.background = false;
    world.volume.settle().expect("closed");
    drop(world.volume);
    world.volume = Volume::open(world.device.clone(), &options).expect("open");
    assert!(world.volume.scrub_rounds().pages == 0);
    world.volume.scrub_turn();
    assert!(world.volume.scrub_rounds().pages > 0);
}

/// What is not a record is none, and a record of another version is read as far as it is known.
#[test]
fn records_are_read_as_far_as_they_are_known() {
    assert_eq!(Record::decode(&[0xff, 0xfe]), None);
    assert_eq!(Record::decode(b"state dancing\n"), None);
    let newer = Record::decode(b"state paused\nmoon 3\nrest_space 2\nrest_index 77\n").expect("a record");
    assert_eq!(newer.rest, RestPlace { space: 2, index: 77 });
    assert_eq!(newer.state, State::Paused);
}

/// Staged pages are looked at by a scrub of memory, by one of their file, and once in a round; what a stray write left of one is
/// mended (S-19.1, S-14.11).
#[test]
fn staged_pages_are_memory() {
    let world = world();
    let ino = world.files[1];
    let staged = |bytes: &[u8]| {
        let written = world.volume.write(Ino(ino), 5, bytes, WriteHow::default());
        written.expect("written");
        let store = world.volume.store();
        let at = store.staged_place(ino, 0).expect("staged");
        store.staging().xor_u8(at + 100, 0x11);
    };
    let arena = Wish {
        arena: true,
        ..Wish::default()
    };
    let of_file = Wish {
        top: Some(ino),
        ..arena.clone()
    };
    for wish in [arena, of_file] {
        staged(b"in memory");
        world.volume.scrub_start(wish).expect("begun");
        let record = world.until(State::Finished);
        assert_eq!((record.arena.bad, record.arena.mended), (1, 1));
    }
    staged(b"and again");
    let mut turns = 0..400;
    while world.volume.scrub_rounds().bad == 0 && turns.next().is_some() {
        world.volume.scrubs.round.lock().last = Instant::now().checked_sub(Duration::from_secs(1));
        world.volume.scrub_turn();
    }
    let looked = world.volume.scrub_rounds();
    assert_eq!((looked.bad, looked.mended), (1, 1));
    let mut bytes = [0; 9];
    world.volume.read(Ino(ino), 5, &mut bytes).expect("read");
    assert_eq!(bytes, *b"and again");
}
