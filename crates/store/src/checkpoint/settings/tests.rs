//! S-2.9: settings change with a checkpoint, whole or not at all, and hold from the next opening on.

use super::*;
use crate::resume::Evidence;
use crate::{Equations, FormatOptions, Meaning, Protection, Ref, Source, StoreOptions};
use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_pool::PROTECT_DEFAULT;
use std::sync::Arc;

const LEVELS: [Protection; 6] = [
    Protection::Crc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
    Protection::Off,
    Protection::Pcrc,
];

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        lasting: true,
        audit: Equations::NONE,
        ..StoreOptions::default()
    }
}

fn pool() -> (Arc<dyn Device>, Arc<Store>) {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = Store::open(device.clone(), &options()).expect("open");
    (device, store)
}

fn node(store: &Store, bytes: &[u8]) -> Ref {
    let made = store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(r, 64, bytes, Meaning::Xattr)?;
        Ok(r)
    });
    made.expect("node")
}

fn content(store: &Store, r: Ref) -> [u8; 8] {
    let mut found = [0; 8];
    store.view().read(r, 64, &mut found).expect("read");
    found
}

fn protect(code: Protection) -> Settings {
    Settings {
        protect: Some(code),
        ..Settings::default()
    }
}

/// Through all six: what was not synced is durable with the new level, which the next opening has.
#[test]
fn the_next_opening_has_the_new_level() {
    let (device, mut store) = pool();
    for (round, code) in LEVELS.into_iter().enumerate() {
        let bytes = [round as u8 + 1; 8];
        let r = node(&store, &bytes);
        let before = store.frames.arena.code();
        assert!(store.set(&protect(code)).expect("set"));
        assert!(!store.set(&protect(code)).expect("again"), "nothing is left to change");
        assert_eq!(
            (store.frames.arena.code(), store.pool_in_force().protect),
            (before, code)
        );
        store.kill();
        drop(store);
        store = Store::open(device.clone(), &options()).expect("open");
        assert_eq!((store.frames.arena.code(), store.pool().protect), (code, code));
        assert_eq!(content(&store, r), bytes);
    }
    assert_eq!(Pool::on(&*device).expect("pool").protect, LEVELS[5]);
}

/// The crash lab asks while a checkpoint is stopped in the middle; a wait would end the stop, and with it what is tested.
#[test]
fn who_asks_waits_for_no_checkpoint() {
    let (_, store) = pool();
    store.set(&protect(Protection::Pq)).expect("set");
    let under_way = store.home.flash().checkpoints.keeper.try_lock().expect("nobody has it");
    assert_eq!(store.pool_in_force().protect, Protection::Pq);
    drop(under_way);
}

#[test]
fn a_label_changes_and_a_wrong_one_does_not() {
    let (device, store) = pool();
    let label = |label: String| Settings {
        label: Some(label),
        ..Settings::default()
    };
    assert!(store.set(&label("photographs".into())).expect("set"));
    // A shorter one leaves nothing of it.
    assert!(store.set(&label("tax".into())).expect("set"));
    for wrong in ["x".repeat(65), "a\0b".into()] {
        assert!(matches!(store.set(&label(wrong)), Err(Error::BadPool(_))));
    }
    assert!(matches!(store.set(&protect(Protection::Adler)), Err(Error::BadPool(_))));
    store.checkpoint().expect("checkpoint");
    let found = Pool::on(&*device).expect("pool");
    assert_eq!((found.label.as_str(), found.protect), ("tax", PROTECT_DEFAULT));
}

#[test]
fn what_is_opened_read_only_keeps_its_settings() {
    let (device, store) = pool();
    store.close().expect("close");
    drop(store);
    let read_only = StoreOptions {
        read_only: true,
        ..options()
    };
    let store = Store::open(device, &read_only).expect("open");
    assert!(matches!(store.set(&protect(Protection::Pq)), Err(Error::ReadOnly(_))));
}

/// S-14.1: a server that dies after the change left frames with the old code; they are judged by it.
#[test]
fn the_memory_that_is_left_tells_its_own_code() {
    let (device, mut store) = pool();
    for code in LEVELS {
        let r = node(&store, b"not told");
        let had = store.frames.arena.code();
        store.set(&protect(code)).expect("set");
        let late = node(&store, b"unsynced");
        let frame = store.frames.cache.pin(r.id).expect("in the arena").frame;
        store.frames.arena.strays().xor_u8(frame as usize * 4096 + 66, 0x20);
        let remains = store.remains().expect("it lasts");
        drop(store);
        let (next, resumed) = Store::resume(device.clone(), &options(), remains, |_| {}).expect("resumed");
        let frames = resumed
            .findings
            .iter()
            .filter(|finding| matches!(finding, Evidence::Frame(damage) if damage.frame == frame));
        // `off` has no sums that would tell.
        let told = usize::from(had != Protection::Off);
        assert_eq!(
            (frames.count(), resumed.findings.len()),
            (told, told),
            "{had} to {code}"
        );
        assert_eq!((next.frames.arena.code(), resumed.lost), (code, 0));
        assert_eq!((content(&next, r), content(&next, late)), (*b"not told", *b"unsynced"));
        store = next;
    }
}
