//! What decides where metadata lies is in the heap: a stray write there is told, and nothing of it reaches the device (C-3).

mod planned;

use super::*;
use crate::txn::Meaning;
use crate::{Equations, FormatOptions, StoreOptions};
use keepfs_format::PAGE;
use keepfs_format::superblock;
use keepfs_format::{Kind, MetaId, Space};
use keepfs_frames::Ref;
use keepfs_media::Class;
use keepfs_media::Device;
use keepfs_media::PageNo;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

/// A store with a node that is in no checkpoint yet.
pub(crate) fn world() -> (Arc<Store>, Ref) {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    (store, node.expect("node"))
}

fn change(store: &Store, r: Ref, bytes: &[u8]) {
    let done = store.transact::<_, Error>(|t| Ok(t.put(r, 100, bytes, Meaning::Xattr)?));
    done.expect("changed");
}

fn events(store: &Store) -> Vec<String> {
    store.history().events(0).into_iter().map(|event| event.text).collect()
}

/// Each word of the superblock in force, before a checkpoint takes it over. S-13.9, S-13.15
#[test]
fn a_superblock_in_force_that_was_changed_is_read_from_the_device() {
    let (store, r) = world();
    store.checkpoint().expect("durable");
    let fields: [fn(&mut Superblock); 6] = [
        |sb| sb.log_start = 9.into(),
        |sb| sb.pool[3] ^= 1,
        |sb| sb.generation = 1000.into(),
        |sb| sb.roots[2].entry.first = 77.into(),
        |sb| sb.state = superblock::CLEAN.into(),
        |sb| sb.crc = 7.into(),
    ];
    for (i, field) in fields.into_iter().enumerate() {
        let before = keepfs_pool::choose(&*store.ground.device).expect("a superblock");
        store.home.flash().checkpoints.keeper.lock().superblock.scribble(field);
        change(&store, r, &[i as u8; 9]);
        store.checkpoint().expect("made from the right one");
        let after = keepfs_pool::choose(&*store.ground.device).expect("a superblock");
        assert_eq!(after.generation.get(), before.generation.get() + 1);
        assert_eq!((after.log_start, after.pool), (before.log_start, before.pool));
        let told = events(&store);
        assert_eq!(told.len(), i + 1, "{told:?}");
        assert!(told[i].contains("the superblock in force"), "{told:?}");
    }
    assert!(store.fault().is_none());
}

/// A setting on its way into the superblock is on no device yet. S-13.9
#[test]
fn a_superblock_to_come_that_was_changed_ends_writing() {
    let (store, _) = world();
    let before = keepfs_pool::choose(&*store.ground.device).expect("a superblock");
    let mut keeper = store.home.flash().checkpoints.keeper.lock();
    let mut wanted = before;
    wanted.label[0] = b'x';
    keeper.superblock = Keeper::of(&wanted);
    keeper.superblock.scribble(|sb| sb.label[1] = b'y');
    let done = store.home.flash().checkpoint_with(&store, &mut keeper, Wish::default());
    assert!(matches!(done, Err(Error::Heap { .. })), "{done:?}");
    assert_eq!(
        keepfs_pool::choose(&*store.ground.device).expect("a superblock"),
        before
    );
    assert_eq!(events(&store).len(), 1);
}

/// S-13.9
#[test]
fn a_root_that_was_changed_is_read_from_the_device_until_a_checkpoint_sets_it() {
    let (store, r) = world();
    store.checkpoint().expect("durable");
    let at = |space: Space| keepfs_pool::choose(&*store.ground.device).expect("a superblock").roots[space as usize];
    let inodes = at(Space::Homes);
    for (round, space) in [Space::Homes, Space::Nodes].into_iter().enumerate() {
        store.home.flash().map.roots.write()[space as usize].scribble(|root| root.entry.first = 1.into());
        assert_eq!(
            store.home.flash().root(&store.frames, space).expect("from the device"),
            at(space)
        );
        store.home.flash().map.roots.write()[space as usize].scribble(|root| root.height = 0);
        assert!(
            store
                .home
                .flash()
                .root(&store.frames, space)
                .expect("from the device")
                .height
                > 0
        );
        assert!(events(&store)[round].contains("the root of the map"));
        assert_eq!(events(&store).len(), round + 1, "told once, not at every look");
        change(&store, r, &[round as u8; 9]);
        let done = store.checkpoint();
        assert!(done.is_ok(), "{done:?}");
        store.home.flash().map.roots.read()[space as usize]
            .get(space as u64)
            .expect("set");
    }
    assert_ne!(at(Space::Homes), inodes, "HOMES are written by each checkpoint");
    store.home.flash().map.roots.write()[2].scribble(|root| root.entry.first = 5.into());
    store
        .ground
        .device
        .write(PageNo(0), &[0; PAGE], Class::Superblock)
        .expect("hit");
    let other = PageNo(superblock::slot_page(1, store.ground.pool.pages));
    store
        .ground
        .device
        .write(other, &[0; PAGE], Class::Superblock)
        .expect("hit");
    for slot in 2..4 {
        let page = PageNo(superblock::slot_page(slot, store.ground.pool.pages));
        store
            .ground
            .device
            .write(page, &[0; PAGE], Class::Superblock)
            .expect("hit");
    }
    assert!(matches!(
        store.home.flash().root(&store.frames, Space::Inodes),
        Err(Error::Heap { .. })
    ));
    assert!(store.fault().is_some(), "nobody knows it any more: writing ends");
}

/// Homes, what is to be written, and what died: the checkpoint stops, and the one before stays in force. S-13.9
#[test]
fn a_list_of_the_checkpoint_that_was_changed_or_lost_ends_writing() {
    type Change = fn(&Store);
    let changes: [(&str, Change); 5] = [
        ("homes", |store| {
            store.home.flash().checkpoints.keeper.lock().homes.scribble()
        }),
        ("a metablock to write", |store| {
            store
                .home
                .flash()
                .checkpoints
                .dirty
                .lock()
                .scribble(0, |[id, _]| *id ^= 1);
        }),
        ("one is lost", |store| {
            store.home.flash().checkpoints.dirty.lock().lose()
        }),
        ("a generation of one that died", |store| {
            store
                .home
                .flash()
                .checkpoints
                .deaths
                .scribble(|died| died.insert(MetaId::new(Space::Nodes, 9).0, 1));
            store.home.flash().checkpoints.deaths.scribble(|died| {
                died.scribble(MetaId::new(Space::Nodes, 9).0, |generation| *generation = 7);
            });
        }),
        ("a death is lost", |store| {
            store
                .home
                .flash()
                .checkpoints
                .deaths
                .scribble(|died| died.insert(MetaId::new(Space::Nodes, 9).0, 1));
            store
                .home
                .flash()
                .checkpoints
                .deaths
                .scribble(|died| died.lose(MetaId::new(Space::Nodes, 9).0));
        }),
    ];
    for (what, spoil) in changes {
        let (store, r) = world();
        store.checkpoint().expect("durable");
        let before = keepfs_pool::choose(&*store.ground.device).expect("a superblock");
        change(&store, r, b"changed");
        spoil(&store);
        let done = store.checkpoint();
        assert!(matches!(done, Err(Error::Heap { .. })), "{what}: {done:?}");
        assert!(store.fault().is_some() && events(&store).len() == 1, "{what}");
        // One that waited for its turn meanwhile: S-15.27.
        assert!(
            store.home.flash().checkpoint_as(&store, Wish::default()).is_err(),
            "{what}"
        );
        assert_eq!(
            keepfs_pool::choose(&*store.ground.device).expect("a superblock"),
            before,
            "{what}"
        );
    }
}
