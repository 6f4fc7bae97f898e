//! The store by itself: transactions, groups, checkpoints and recovery on a device in memory.

use crate::walked::errors;
use keepfs_format::{Kind, MetaId};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Abort, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use std::sync::Arc;

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    }
}

fn pool(pages: u64) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(pages));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    device
}

fn open(device: &Arc<dyn Device>, guard: Guard) -> Arc<Store> {
    Store::open(device.clone(), &StoreOptions { guard, ..options() }).expect("open")
}

fn new_node(store: &Store, bytes: &[u8]) -> Ref {
    store
        .transact::<_, Error>(|t| {
            let r = t.new_node(Kind::BlockMap, 1, 7)?;
            t.put(r, 100, bytes, Meaning::MapNode)?;
            Ok(r)
        })
        .expect("transaction")
}

fn read(store: &Store, r: Ref) -> Vec<u8> {
    let mut buf = vec![0; 5];
    store.view().read(r, 100, &mut buf).expect("read");
    buf
}

/// S-9.4: what was synced is there after a crash, what was not is not, in both guard levels.
#[test]
fn synced_survives_a_crash() {
    for guard in [Guard::Alias, Guard::Off] {
        let device = pool(2048);
        let store = open(&device, guard);
        let a = new_node(&store, b"first");
        store.sync().expect("sync");
        let b = new_node(&store, b"later");
        assert_eq!(read(&store, b), b"later");
        store.kill();
        drop(store);
        let store = open(&device, guard);
        assert_eq!(read(&store, a), b"first");
        let mut buf = [0; 5];
        assert!(store.view().read(b, 100, &mut buf).is_err());
        assert_eq!(store.totals().nodes, 1);
    }
}

/// S-10: a checkpoint contains everything; closing and opening changes nothing; frames can be fetched again.
#[test]
fn checkpoints_and_reopens() {
    let device = pool(4096);
    let mut nodes = Vec::new();
    for round in 0..5u8 {
        let store = open(&device, Guard::Alias);
        for i in 0..300u32 {
            nodes.push(new_node(&store, &[round, i as u8, (i >> 8) as u8, 3, 4]));
        }
        if round % 2 == 0 {
            store.close().expect("close");
        } else {
            store.sync().expect("sync");
            store.kill();
        }
        drop(store);
        let store = open(&device, Guard::Alias);
        store.drop_clean_frames();
        for (n, r) in nodes.iter().enumerate() {
            let i = (n % 300) as u32;
            assert_eq!(read(&store, *r), [(n / 300) as u8, i as u8, (i >> 8) as u8, 3, 4]);
        }
        store.close().expect("close");
    }
}

/// A failing closure leaves bytes, sums, numbers and counters as they were.
#[test]
fn rollback_restores_everything() {
    let device = pool(2048);
    let store = open(&device, Guard::Alias);
    let a = new_node(&store, b"first");
    let before = store.totals();
    let failed = store.transact::<(), Error>(|t| {
        t.put(a, 100, b"other", Meaning::MapNode)?;
        let n = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(n, 64, &[7; 500], Meaning::Xattr)?;
        t.new_ino()?;
        t.free_node(a)?;
        Err(Abort::Fail(Error::NoSpace))
    });
    assert!(matches!(failed, Err(Error::NoSpace)));
    assert_eq!(read(&store, a), b"first");
    assert_eq!(store.totals(), before);
    store.sync().expect("nothing to write");
    let b = new_node(&store, b"again");
    assert_ne!(a.id, b.id);
    store.close().expect("close: all sums are right");
}

/// Deleting and making nodes for a long time does not eat space or numbers (S-11.1).
#[test]
fn numbers_and_homes_are_reused() {
    let device = pool(2048);
    let store = open(&device, Guard::Alias);
    let mut live: Vec<Ref> = Vec::new();
    for i in 0..20_000u32 {
        live.push(new_node(&store, &i.to_le_bytes().repeat(2)[..5]));
        if live.len() > 50 {
            let r = live.swap_remove((i % 50) as usize);
            store.transact::<_, Error>(|t| Ok(t.free_node(r)?)).expect("free");
        }
        if i % 100 == 0 {
            store.sync().expect("sync");
        }
        if i % 997 == 0 {
            store.checkpoint().expect("checkpoint");
        }
    }
    assert_eq!(store.totals().nodes, 50);
    store.close().expect("close");
    let store = open(&device, Guard::Alias);
    assert_eq!(store.totals().nodes, 50);
    let figures = store.figures();
    assert!(figures.free > figures.pages / 2, "{figures:?}");
    for r in live {
        store.view().read(r, 0, &mut [0; 32]).expect("still there");
    }
}

/// The door refuses the right call on the wrong metablock.
#[test]
fn wrong_metablock_is_refused() {
    let device = pool(2048);
    let store = open(&device, Guard::Alias);
    let a = new_node(&store, b"first");
    let wrong_owner = Ref { owner: 8, ..a };
    let result = store.transact::<(), Error>(|t| Ok(t.put(wrong_owner, 100, b"x", Meaning::MapNode)?));
    assert!(matches!(result, Err(Error::DamagedOne { .. })), "{result:?}");
    let header = store.transact::<(), Error>(|t| Ok(t.put(a, 8, b"x", Meaning::MapNode)?));
    assert!(matches!(header, Err(Error::Logic(_))), "{header:?}");
    let absent = Ref {
        id: MetaId(a.id.0 + 1000),
        ..a
    };
    let result = store.transact::<(), Error>(|t| Ok(t.put(absent, 100, b"x", Meaning::MapNode)?));
    assert!(result.is_err());
}

/// The structures below names and files are as the independent walk expects them: it only tells the nodes that no
/// inode names, exactly those that live.
#[test]
fn the_walk_agrees_about_the_floor_below_files() {
    let device = pool(2048);
    assert_eq!(errors(&*device), []);
    let store = open(&device, Guard::Alias);
    let mut live = std::collections::BTreeSet::new();
    for i in 0..400u32 {
        let r = new_node(&store, &i.to_le_bytes().repeat(2)[..5]);
        live.insert(r.id);
        if i % 3 == 0 {
            store.transact::<_, Error>(|t| Ok(t.free_node(r)?)).expect("free");
            live.remove(&r.id);
        }
        if i % 50 == 0 {
            store.sync().expect("sync");
        }
        if i % 120 == 0 {
            store.checkpoint().expect("checkpoint");
        }
    }
    let unreached = |found: Vec<keepfs_check::Finding>| {
        let ids = found.iter().map(|f| match f {
            keepfs_check::Finding::NodeUnreached { id } => id.to_string(),
            other => format!("{other:?}"),
        });
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    let live: std::collections::BTreeSet<String> = live.iter().map(|id| id.to_string()).collect();
    store.sync().expect("sync");
    assert_eq!(unreached(errors(&*device)), live, "with a log to replay");
    store.close().expect("close");
    assert_eq!(unreached(errors(&*device)), live, "after a checkpoint");
}

/// S-8.13: the numbers of a pool's log pages are its own, by its id; the first stands where the log begins.
#[test]
fn log_pages_have_numbers_of_their_own() {
    let first = |id: u8, log_pages| {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(2048));
        let options = FormatOptions {
            id: Some(keepfs_format::PoolId([id; 16])),
            log_pages: Some(log_pages),
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &options).expect("format");
        let number = |slot| {
            let mut page = [0; 4096];
            let at = keepfs_format::superblock::slot_page(slot, 2048);
            device.read(keepfs_media::PageNo(at), &mut page).expect("read");
            page[144..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        (0..2).map(number).max()
    };
    for log_pages in [32, 100] {
        for id in [0, 1, 2, 0xFF] {
            let own = (1 << 40) + keepfs_codes::crc64::full(&[id; 16]) % (1 << 46);
            assert_eq!(first(id, log_pages), Some(own.next_multiple_of(log_pages)));
        }
    }
}
