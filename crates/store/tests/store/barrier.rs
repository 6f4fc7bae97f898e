//! The barrier of a checkpoint and transactions that do not end (S-10.1): they abort and run again, or
//! the barrier withdraws; nobody else waits for them.

use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

fn open() -> Arc<Store> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(16_384));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let o = StoreOptions {
        arena_bytes: 16 << 20,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &o).expect("open")
}

fn new_node(store: &Store) -> Ref {
    store
        .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 7)?))
        .expect("new node")
}

fn read(store: &Store, r: Ref) -> u64 {
    let mut bytes = [0; 8];
    store.view().read(r, 64, &mut bytes).expect("read");
    u64::from_le_bytes(bytes)
}

/// A transaction that works on and on is told to abort; its changes are taken back, and it runs again.
#[test]
fn a_long_transaction_aborts_and_runs_again() {
    let store = open();
    let r = new_node(&store);
    let runs = AtomicU64::new(0);
    let (started, has_started) = channel();
    std::thread::scope(|scope| {
        let (store, runs) = (&store, &runs);
        scope.spawn(move || {
            store
                .transact::<_, Error>(|t| {
                    let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                    t.put(r, 64, &run.to_le_bytes(), Meaning::Xattr)?;
                    started.send(()).expect("the test listens");
                    if run > 1 {
                        return Ok(());
                    }
                    // Only being told to abort ends this.
                    let mut level = [0];
                    loop {
                        t.read(r, 5, &mut level)?;
                    }
                })
                .expect("the second run");
        });
        has_started.recv().expect("it runs");
        let before = store.stats().checkpoints;
        store.checkpoint().expect("checkpoint");
        assert_eq!(store.stats().checkpoints, before + 1);
    });
    let runs = runs.load(Ordering::SeqCst);
    assert!(runs >= 2, "it was never told to abort");
    assert_eq!((read(&store, r), store.stats().told_to_abort), (runs, runs - 1));
    store.close().expect("close: all sums are right");
}

/// A transaction whose thread stands still cannot abort: the barrier opens again, others go on, and the checkpoint is
/// made when it has ended.
#[test]
fn a_frozen_transaction_stops_nobody_else() {
    let store = open();
    let (frozen, other) = (new_node(&store), new_node(&store));
    let (started, has_started) = channel();
    let (thaw, may_go) = channel::<()>();
    let before = store.stats().checkpoints;
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let mut first = true;
            store
                .transact::<_, Error>(|t| {
                    t.put(frozen, 64, &1u64.to_le_bytes(), Meaning::Xattr)?;
                    if core::mem::take(&mut first) {
                        started.send(()).expect("the test listens");
                        may_go.recv().expect("the test thaws it");
                    }
                    Ok(t.put(frozen, 72, &1u64.to_le_bytes(), Meaning::Xattr)?)
                })
                .expect("it ends");
        });
        has_started.recv().expect("it runs");
        let checkpoint = scope.spawn(move || store.checkpoint().expect("checkpoint"));
        let mut value = 0u64;
        while store.stats().barriers_withdrawn < 2 {
            value += 1;
            store
                .transact::<_, Error>(|t| Ok(t.put(other, 64, &value.to_le_bytes(), Meaning::Xattr)?))
                .expect("others go on");
        }
        assert_eq!(store.stats().checkpoints, before, "it is still open");
        assert_eq!(read(store, other), value);
        thaw.send(()).expect("it listens");
        checkpoint.join().expect("checkpoint");
    });
    assert_eq!((store.stats().checkpoints, read(&store, frozen)), (before + 1, 1));
    let times = store.stats().barrier;
    assert!(times.total() >= 3, "two withdrawn and one made: {times:?}");
    store.close().expect("close: all sums are right");
}
