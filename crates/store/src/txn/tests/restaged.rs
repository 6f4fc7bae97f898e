//! What a checkpoint carries is mended as it was at its moment (S-14.12, S-10.3).

use super::*;
use crate::{FormatOptions, StoreOptions};
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

const INO: u64 = 9;

fn store() -> Arc<Store> {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn stage(store: &Store, bytes: &[u8]) {
    let staged = store.transact::<_, Error>(|t| Ok(t.stage(INO, 0, 1, None, 0, bytes)?));
    staged.expect("staged");
}

/// Its copy is hit when the page has another content already: the group has what was staged at the moment, and the younger content
/// is not touched.
#[test]
fn what_was_changed_since_is_carried_as_it_was() {
    for is_synced in [false, true] {
        let store = store();
        stage(&store, b"first");
        if is_synced {
            store.sync().expect("sync");
        }
        let redo = store.home.flash().log.redo.lock();
        let (carried, moment) = (store.home.flash().staged.table.lock().carry(), redo.last);
        drop(redo);
        stage(&store, b"newer");
        let [carried] = &carried[..] else { panic!("one page") };
        let at = store.home.flash().log.segment.page_at(carried.placed.slot);
        store.home.flash().log.segment.region().xor_u8(at + 2, 0x40);
        assert!(matches!(
            carried.record(&store.home.flash().log.segment),
            Record::Lost { .. }
        ));
        let record = store.home.flash().mend_carried(&store.frames, carried, moment);
        assert!(matches!(record, Some(Record::Tail { bytes, version: 1, .. }) if bytes == b"first"));
        store.home.flash().staged.table.lock().carry_done();
        let mut page = [0; PAGE];
        assert!(matches!(store.staged(INO, 0, &mut page), Ok(true)));
        assert_eq!(page[..5], *b"newer");
    }
}
