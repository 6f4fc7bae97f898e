//! What fetching a metablock into a frame leaves behind: what is known of the frame then.

use crate::{Error, FormatOptions, Meaning, Ref, Store, StoreOptions};
use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;
use std::time::Duration;

/// A pool with a node that is on the device and in no frame.
fn pool_and_node() -> (Arc<Store>, Ref) {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        verified_for: Duration::from_secs(3600),
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let node = store.transact::<_, Error>(|t| {
        let node = t.new_node(Kind::Xattr, 0, 7)?;
        t.put(node, 64, b"what the node holds", Meaning::Xattr)?;
        Ok(node)
    });
    store.checkpoint().expect("checkpoint");
    store.drop_clean_frames();
    (store, node.expect("node"))
}

/// What was compared with its sum as it was stored is not compared again by who asked for it, a moment later (S-15.19,
/// decision 0672); the generation that a transaction compares is known, too (decision 0605).
#[test]
fn a_frame_counts_as_verified_when_it_was_filled() {
    let (store, node) = pool_and_node();
    assert!(store.cache.peek(node.id).is_none(), "it is on the device only");
    let pin = store.fetch(node.id).expect("fetched");
    assert!(pin.slot().verified.is_young(&store.clock, store.clock.now()));
    let header = store.header(node.id).expect("header");
    assert_eq!(pin.slot().generation(), header.generation.get());
}

/// That ends with the frame's content (S-15.19).
#[test]
fn a_frame_that_holds_something_else_counts_anew() {
    let (store, node) = pool_and_node();
    let frame = store.fetch(node.id).expect("fetched").frame;
    store.drop_clean_frames();
    assert_eq!(store.cache.slot(frame).verified.at(), 0);
}
