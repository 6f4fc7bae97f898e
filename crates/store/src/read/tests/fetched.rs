//! What fetching a metablock into a frame leaves behind: what is known of the frame then.

use crate::{Error, FormatOptions, Meaning, Ref, Store, StoreOptions};
use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

/// A pool with a node that is on the device and in no frame.
fn pool_and_node() -> (Arc<Store>, Ref) {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
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

/// A frame that was filled was seen to be right then; that ends with its content. S-15.15
#[test]
fn what_is_known_of_a_frame_ends_with_its_content() {
    let (store, node) = pool_and_node();
    assert!(store.frames.cache.peek(node.id).is_none(), "it is on the device only");
    let pin = store.fetch(node.id).expect("fetched");
    let frame = pin.frame;
    assert_ne!(store.frames.cache.slot(frame).seen.at(), 0);
    drop(pin);
    store.drop_clean_frames();
    assert_eq!(store.frames.cache.slot(frame).seen.at(), 0);
}
