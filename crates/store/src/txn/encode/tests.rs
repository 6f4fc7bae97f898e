//! What a transaction keeps in the heap until its commit is changed by something else: it is seen before anything of it
//! reaches the log, and told (S-13.16).

use super::*;
use crate::{FormatOptions, Half, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_codes::crc32c;
use keepfs_format::oplog::Action;
use keepfs_format::{Kind, MetaId, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

/// The first inode number that is free.
const INO: u64 = 2;
const OLD: &[u8; 8] = b"as it is";

/// A pool with a node, everything durable.
fn world() -> (Arc<SimDevice>, Arc<Store>, Ref) {
    let device = Arc::new(SimDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = opened(device.clone());
    let node = store.transact::<_, Error>(|t| {
        let node = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(node, 100, OLD, Meaning::Xattr)?;
        assert_eq!(t.new_ino()?, INO);
        Ok(node)
    });
    store.fetch(keepfs_format::inode::block_of(INO)).expect("in the arena");
    store.sync().expect("sync");
    (device, store, node.expect("node"))
}

fn opened(device: Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn texts(store: &Store) -> Vec<String> {
    store.history().events(0).into_iter().map(|event| event.text).collect()
}

#[track_caller]
fn is_taken_back(store: &Store, txn: Txn<'_>, told: &str) {
    let before = texts(store).len();
    match txn.seal().err() {
        Some(Stop::Error(Error::Records)) => {}
        other => panic!("{other:?}"),
    }
    let texts = texts(store);
    assert!(
        texts.len() == before + 1 && texts[before].contains(told),
        "{told}: {texts:?}"
    );
}

/// Which bytes of which metablock are logged. S-13.16
#[test]
fn ranges_that_were_changed_never_reach_the_log() {
    let (device, store, node) = world();
    let scribbles: [fn(&mut Touched<'_>); 5] = [
        |t| t.ranges.scribble(|ranges| ranges[0].0 -= 8),
        |t| t.ranges.scribble(|ranges| ranges[1].1 = 0xFFFF),
        |t| t.ranges.scribble(|ranges| ranges[0] = (4000, 3000)),
        |t| t.birth.generation += 1,
        |t| t.r.id = MetaId(t.r.id.0 ^ 1),
    ];
    let last = store.last_seq();
    for scribble in scribbles {
        let mut txn = Txn::begin(&store);
        txn.put(node, 100, b"not done", Meaning::Xattr).expect("put");
        txn.put(node, 300, b"this neither", Meaning::Xattr).expect("put");
        let touched = txn.touched.iter_mut().find(|t| t.r.id == node.id);
        scribble(touched.expect("touched"));
        is_taken_back(&store, txn, "which bytes a transaction logs");
    }
    assert_eq!(store.last_seq(), last);
    store.sync().expect("sync");
    for store in [store, opened(Arc::new(SimDevice::over(device.power_cut(0))))] {
        let mut found = [0; 8];
        store.view().read(node, 100, &mut found).expect("read");
        assert_eq!(found, *OLD);
        assert!(store.fault().is_none());
    }
}

/// Operations: before the seal the transaction is taken back, behind it it is left out of the operation log, with what was
/// before it. S-13.9, S-12.6
#[test]
fn operations_that_were_changed_are_never_logged() {
    let (_, store, node) = world();
    let changed = || {
        let mut txn = Txn::begin(&store);
        txn.put(node, 100, b"that is!", Meaning::Xattr).expect("put");
        txn.op(INO, Action::Fallocate { end: 77 }).expect("told");
        txn
    };
    let scribbled = |txn: &mut Txn<'_>| {
        let draft = txn.draft.as_mut().expect("it is kept");
        draft.scribble(|bytes, _| *bytes.last_mut().expect("an operation") ^= 4);
    };
    let logged = || {
        let halves = [Half::Previous, Half::Live].map(|half| store.operations(half).expect("sound").len());
        (halves[0], halves[1])
    };
    changed().seal().expect("sealed").commit();
    let before = logged();
    assert_eq!(before.0, 0);
    let mut txn = changed();
    scribbled(&mut txn);
    is_taken_back(&store, txn, "the operations of a transaction");
    assert_eq!(logged(), before);
    let mut sealed = changed().seal().expect("sealed");
    scribbled(&mut sealed.txn);
    sealed.commit();
    assert_eq!(texts(&store).len(), 2);
    assert_eq!(logged(), (0, 0));
    changed().seal().expect("sealed").commit();
    assert_eq!(logged(), (0, 1));
    assert!(store.fault().is_none());
}

/// What was read of the page under one that is staged: a transaction that stages one page is taken back, of one that stages
/// more that page is lost, until it is read again from the device, as the log has what was written. S-13.17
#[test]
fn a_base_that_was_changed_is_never_staged() {
    let (device, store, _) = world();
    let run = store
        .reserve(1, crate::Purpose::New, crate::Near::Current)
        .expect("a page")
        .runs()[0];
    let content = [0xA7; PAGE];
    device.write(PageNo(run.start), &content, Class::Data).expect("written");
    let used = store.transact::<_, Error>(|t| Ok(t.use_pages(run)?));
    used.expect("used");
    let base = crate::Base {
        page: run.start,
        crc: crc32c::of(&content),
        content: &content,
    };
    let staged = |pages: u64| {
        let mut txn = Txn::begin(&store);
        for index in 0..pages {
            let base = Some(base).filter(|_| index == 0);
            txn.stage(INO, index, 1, base, 100, b"12345").expect("staged");
        }
        let base = txn.bases.get_mut(&(INO, 0)).expect("kept");
        base[3000] ^= 0x40;
        txn
    };
    is_taken_back(&store, staged(1), "the page under one that is staged");
    assert!(!store.is_staged(INO, 0));
    staged(2).seal().expect("sealed").commit();
    let mut page = [0; PAGE];
    assert!(matches!(store.staged(INO, 0, &mut page), Err(Error::Lost { .. })));
    assert!(matches!(store.staged(INO, 1, &mut page), Ok(true)));
    assert_eq!(texts(&store).len(), 2);
    store.sync().expect("sync");
    let store = opened(Arc::new(SimDevice::over(device.power_cut(0))));
    assert!(matches!(store.staged(INO, 0, &mut page), Ok(true)));
    let mut right = content;
    right[100..105].copy_from_slice(b"12345");
    assert!(page == right);
}
