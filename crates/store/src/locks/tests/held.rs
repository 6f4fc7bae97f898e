//! What a thread may not hold while it looks at a frame (S-15.29).

use crate::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_format::{Kind, Space};
use keepfs_media::ram::RamDevice;
use keepfs_vault::planted::{Use, plant_use};
use keepfs_vault::update::by_hand as update;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn world() -> (Arc<Store>, Ref) {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        guard: Guard::Off,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 7)?));
    (store, node.expect("node"))
}

/// How `f` panics.
fn panic_of(f: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).expect_err("it is noticed");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

const LOOKED: &str = "a frame is looked at by who holds";

#[test]
fn who_has_the_lock_of_redo_or_log_looks_at_no_frame() {
    let (store, node) = world();
    let read = || store.view().read(node, 64, &mut [0; 8]).expect("read");
    read();
    let redo = store.home.flash().log.redo.lock();
    assert!(panic_of(read).starts_with(LOOKED));
    drop(redo);
    let log = store.home.flash().log.end.lock();
    assert!(panic_of(read).starts_with(LOOKED));
    drop(log);
    read();
}

/// A commit that looks at what it has touched, under the lock of redo, is noticed, whether anybody is in its way or not.
#[test]
fn a_commit_that_looks_is_noticed() {
    let (store, node) = world();
    let put = || {
        store
            .transact::<_, Error>(|t| Ok(t.put(node, 64, b"put", Meaning::Xattr)?))
            .expect("put")
    };
    put();
    plant_use(Some(Use::LoadUnderRedo));
    let told = panic_of(put);
    plant_use(None);
    assert!(told.starts_with(LOOKED), "{told}");
}

#[test]
fn a_writer_of_a_frame_looks_at_none_and_takes_no_lock() {
    let (store, node) = world();
    let frame = store.fetch(node.id).expect("pin").frame;
    update::enter(&store.frames.arena, frame);
    let told = panic_of(|| store.view().read(node, 64, &mut [0; 8]).expect("read"));
    assert!(told.starts_with(LOOKED), "{told}");
    assert!(panic_of(|| drop(store.frames.arena.hold(frame))).starts_with(LOOKED));
    assert!(panic_of(|| update::enter(&store.frames.arena, frame)).starts_with(LOOKED));
    for told in [
        panic_of(|| drop(store.home.flash().log.redo.lock())),
        panic_of(|| drop(store.home.flash().log.end.lock())),
        panic_of(|| store.alloc.numbers(Space::NodeNumbers).lock_and_go()),
    ] {
        assert!(told.starts_with("a writer of a frame takes a lock"), "{told}");
    }
    update::leave(&store.frames.arena, frame);
    store.view().read(node, 64, &mut [0; 8]).expect("read");
}

/// Who mends a frame asks redo and log, and looks at no other frame.
#[test]
fn who_mends_a_frame_looks_at_no_other() {
    let (store, node) = world();
    let frame = store.fetch(node.id).expect("pin").frame;
    let held = store.frames.arena.hold(frame);
    drop(store.home.flash().log.redo.lock());
    let told = panic_of(|| drop(store.frames.arena.hold(frame + 1)));
    assert!(told.starts_with(LOOKED), "{told}");
    drop(held);
    drop(store.frames.arena.hold(frame + 1));
}
