//! What the door looks at before it opens a window: range, frame, identity.

mod restaged;

use super::*;
use crate::{Equations, FormatOptions, StoreOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

fn world() -> (Arc<Store>, Ref) {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = opened(device);
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    (store, node.expect("node"))
}

fn opened(device: Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,

        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn refused(result: Result<(), Stop>) -> String {
    match result {
        Err(Stop::Error(e @ (Error::Logic(_) | Error::Damaged(_) | Error::DamagedOne { .. }))) => e.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// A change by callers of another group than the metablock's is refused before it is made, and with it all that its transaction
/// did before; it is told. S-15.5
#[test]
fn a_change_by_the_wrong_group_takes_its_transaction_back() {
    let (store, r) = world();
    let pin = store.frames.cache.pin(r.id).expect("in the arena");
    let (mut before, mut after) = ([0; PAGE], [0; PAGE]);
    store.frames.arena.load_raw(pin.frame, 0, &mut before);
    let last = store.last_seq();
    for meaning in [
        Meaning::Inode,
        Meaning::Dirent,
        Meaning::DirNode,
        Meaning::MapEntry,
        Meaning::MapNode,
    ] {
        let done = store.transact::<_, Error>(|t| {
            t.put(r, 100, b"by its own group", Meaning::Xattr)?;
            Ok(t.put(r, 200, b"by another", meaning)?)
        });
        assert!(matches!(done, Err(Error::Logic(_))), "{meaning:?}: {done:?}");
        let done = store.transact::<_, Error>(|t| Ok(t.put_diff(r, 200, &[0; 8], &[1; 8], meaning)?));
        assert!(matches!(done, Err(Error::Logic(_))), "{meaning:?}: {done:?}");
    }
    store.frames.arena.load_raw(pin.frame, 0, &mut after);
    assert!(before == after);
    assert_eq!(store.last_seq(), last, "nothing is in the redo");
    store.verified_copy(&pin, &mut after).expect("its sum is right");
    assert!(store.damages().is_empty());
    let events = store.history().events(0);
    assert_eq!(events.len(), 10, "{events:?}");
    let text = &events[0].text;
    assert!(
        text.contains("by Inode callers") && text.contains("taken back"),
        "{text}"
    );
}

/// Into the header, over the end by one byte, and by lengths that meet the end of all numbers: nothing is changed by it.
#[test]
fn a_range_that_leaves_the_frame_is_refused() {
    let (store, r) = world();
    let frame = store.frames.cache.pin(r.id).expect("in the arena").frame;
    let (mut before, mut after) = ([0; PAGE], [0; PAGE]);
    store.frames.arena.load_raw(frame, 0, &mut before);
    for (offset, len) in [
        (0, 8),
        (HEADER - 1, 1),
        (PAGE - 7, 8),
        (PAGE, 1),
        (PAGE + 64, 8),
        (usize::MAX - 3, 8),
        (HEADER, PAGE),
    ] {
        let mut txn = Txn::begin(&store);
        let said = refused(txn.put(r, offset, &vec![0xEE; len], Meaning::Xattr));
        assert!(said.contains("leaves"), "{offset} {len}: {said}");
        let read = txn.read(r, offset.max(PAGE - 7), &mut vec![0; len.max(8)]);
        assert!(refused(read).contains("leaves"), "{offset} {len}");
        store.frames.arena.load_raw(frame, 0, &mut after);
        assert!(before == after && txn.is_empty(), "{offset} {len}");
    }
}

/// Under the caller's name stands another metablock: by its header at the first touch, by the index at each later one.
#[test]
fn another_metablock_than_the_caller_named_is_refused() {
    let (store, r) = world();
    for wrong in [
        Ref { owner: 8, ..r },
        Ref {
            kind: Kind::BlockMap,
            ..r
        },
    ] {
        let said = refused(Txn::begin(&store).put(wrong, 100, b"x", Meaning::Xattr));
        assert!(said.contains("was expected as"), "{said}");
    }
    let mut txn = Txn::begin(&store);
    txn.put(r, 100, b"x", Meaning::Xattr).expect("put");
    let said = refused(txn.put(Ref { owner: 8, ..r }, 100, b"y", Meaning::Xattr));
    assert!(said.contains("as two things"), "{said}");
    // The index took the frame away from under the transaction.
    let frame = store.frames.cache.pin(r.id).expect("in the arena").frame;
    store.frames.cache.give_back(frame);
    let said = refused(txn.put(r, 100, b"z", Meaning::Xattr));
    assert!(said.contains("holds"), "{said}");
    let mut byte = [0];
    store.frames.arena.load_raw(frame, 100, &mut byte);
    assert_eq!(byte, *b"x");
}

/// T-2: a stray write into the generation of a metablock is mended before the next change is logged; a replay has that change.
/// S-15.19
#[test]
fn a_stray_generation_does_not_get_into_the_log() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = opened(device.clone());
    let put =
        |store: &Store, r, bytes: &[u8]| store.transact::<_, Error>(|t| Ok(t.put(r, 100, bytes, Meaning::Xattr)?));
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let r = node.expect("node");
    for bytes in [b"first", b"again"] {
        put(&store, r, bytes).expect("put");
    }
    store.checkpoint().expect("checkpoint");
    let pin = store.frames.cache.pin(r.id).expect("in the arena");
    let at = core::mem::offset_of!(keepfs_format::Header, generation);
    for byte in 0..4 {
        let mut right = [0];
        store.frames.arena.load_raw(pin.frame, at + byte, &mut right);
        store.frames.arena.stray(pin.frame, at + byte, &[right[0] ^ 0x40]);
        put(&store, r, &[b'0' + byte as u8; 5]).expect("put");
        let mut found = [0];
        store.frames.arena.load_raw(pin.frame, at + byte, &mut found);
        assert_eq!(found, right, "byte {byte}");
        assert_eq!(store.damages().len(), 1 + byte);
    }
    drop(pin);
    store.sync().expect("sync");
    drop(store);
    let mut bytes = [0; 5];
    opened(device).view().read(r, 100, &mut bytes).expect("read");
    assert_eq!(bytes, *b"33333");
}

/// S-4.3: a stray write into an entry of a map page that was verified before is mended, not taken for what the map says.
#[test]
fn a_stray_map_entry_is_mended() {
    let (store, r) = world();
    store.checkpoint().expect("checkpoint");
    let right = store
        .home
        .flash()
        .locate(&store.frames, r.id)
        .expect("map")
        .expect("lives");
    let page = store
        .fetch(keepfs_format::MetaId::map(keepfs_format::Space::Nodes, 0, 0))
        .expect("a map page");
    let at = keepfs_format::map::entry_offset(r.id.index());
    store.frames.arena.stray(page.frame, at, &[0xEE; 16]);
    assert_eq!(
        store.home.flash().locate(&store.frames, r.id).expect("mended"),
        Some(right)
    );
    assert_eq!(store.damages().len(), 1);
    store.view().read(r, 100, &mut [0]).expect("read");
}

/// What a transaction tells the log is changed behind its back: before the seal it is taken back, behind it the redo tells what it
/// was. S-13.9
#[test]
fn records_that_were_changed_never_reach_the_log() {
    let (store, r) = world();
    let last = store.last_seq();
    let done = store.transact::<_, Error>(|t| {
        t.put(r, 100, b"not done", Meaning::Xattr)?;
        t.new_node(Kind::Xattr, 0, 9)?;
        t.records.scribble(|records| records.truncate(records.len() - 1));
        Ok(())
    });
    assert!(matches!(done, Err(Error::Records)), "{done:?}");
    assert_eq!(store.last_seq(), last);
    let hidden = |on| Record::Alloc {
        space: Space::Orphans,
        run: keepfs_format::plog::Run { start: on, count: 1 },
    };
    let mut txn = Txn::begin(&store);
    txn.free_node(r).expect("freed");
    let mut sealed = txn.seal().expect("sealed");
    sealed.txn.records.scribble(|records| records[0] = hidden(77));
    let seq = sealed.commit();
    assert_eq!(seq, last + 1);
    let events = store.history().events(0);
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events
            .iter()
            .all(|event| event.text.contains("the records of a transaction"))
    );
    let span = store.home.flash().log.redo.lock().kept();
    let mut buffer = Vec::new();
    span.records(&store.home.flash().log.segment, &mut buffer)
        .expect("right");
    assert!(store.fault().is_none());
}
