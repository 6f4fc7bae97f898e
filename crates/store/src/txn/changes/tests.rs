//! What the auditor is not shown ends the transaction.

use crate::error::{Error, Stop};
use crate::{FormatOptions, Store, StoreOptions, Txn, update};
use keepfs_codes::identity::Group;
use keepfs_format::bitmap::{TOTAL_SHARES, TOTALS};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

/// S-17.1: a change of a frame that the transaction does not hold is a logic error that names the frame, and is undone.
#[test]
fn a_change_of_a_frame_that_is_not_held_is_told() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let before = store.totals().expect("totals");
    let pin = store.fetch(TOTALS).expect("totals");
    let mut txn = Txn::begin(&store);
    update::add64(&store.arena, &mut txn.undo, pin.frame, TOTAL_SHARES, 1).expect("a change");
    assert_ne!(store.totals().expect("totals"), before);
    match txn.seal().err() {
        Some(Stop::Error(Error::Logic(what))) => assert!(what.contains(&format!("frame {}", pin.frame)), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.totals().expect("totals"), before);
    // Bytes of a page are changed through the transaction or not at all.
    let mut txn = Txn::begin(&store);
    update::put(&store.arena, &mut txn.undo, (Group::Bitmap, pin.frame), 4000, &[1]).expect("a change");
    assert!(matches!(txn.seal().err(), Some(Stop::Error(Error::Logic(_)))));
}
