//! C-2: an fsync costs one flush, concurrent ones share it. Counted by the device.

use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, DeviceError};
use keepfs_store::{Error, FormatOptions, Meaning, Purpose, Ref, Store, StoreOptions, group_pages_max};
use keepfs_testkit::hook::{Hooked, Hooks};
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Barrier};

/// A counting device whose flushes can be held.
type Held = Hooked<RamDevice, Gate>;

/// What holds them.
struct Gate {
    /// Flushes may return; how many wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

fn held(pages: u64) -> Arc<Held> {
    let gate = Gate {
        state: Mutex::new((true, 0)),
        changed: Condvar::new(),
    };
    Arc::new(Hooked::new(RamDevice::new(pages), gate))
}

impl Gate {
    fn hold(&self, on: bool) {
        self.state.lock().0 = !on;
        self.changed.notify_all();
    }

    fn until_one_waits(&self) {
        let mut state = self.state.lock();
        while state.1 == 0 {
            self.changed.wait(&mut state);
        }
    }
}

impl Hooks for Gate {
    fn before_flush(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            self.changed.wait(&mut state);
        }
        state.1 -= 1;
        Ok(())
    }
}

fn open(device: &Arc<Held>) -> Arc<Store> {
    let o = FormatOptions {
        zone_pages: Some(32_512),
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    let o = StoreOptions {
        arena_bytes: 16 << 20,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &o).expect("open")
}

fn new_node(store: &Store) -> Ref {
    store
        .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 7)?))
        .expect("new node")
}

fn change(store: &Store, r: Ref, value: u64) {
    store
        .transact::<_, Error>(|t| Ok(t.put(r, 64, &value.to_le_bytes(), Meaning::Xattr)?))
        .expect("change");
}

/// One thread, n changes, n syncs: n flushes and n groups of one page; what is durable costs nothing.
#[test]
fn each_sync_of_one_thread_costs_one_flush() {
    let device = held(16_384);
    let store = open(&device);
    let r = new_node(&store);
    store.sync().expect("sync");
    let before = device.counters();
    for i in 1..=100 {
        change(&store, r, i);
        store.sync().expect("sync");
        store.sync().expect("nothing to do");
    }
    let cost = device.counters() - before;
    assert_eq!(cost.flushes, 100);
    assert_eq!(
        (cost.of(Class::Plog).operations, cost.of(Class::Plog).bytes),
        (100, 100 * 4096)
    );
    assert_eq!(cost.all_written(), cost.of(Class::Plog));
    store.close().expect("close");
}

/// Changes committed while a flush is on its way share the next one, however many threads ask.
#[test]
fn syncs_that_meet_a_flush_share_the_next() {
    const THREADS: u64 = 8;
    let device = held(16_384);
    let store = open(&device);
    let nodes: Vec<Ref> = (0..=THREADS).map(|_| new_node(&store)).collect();
    store.sync().expect("sync");
    for round in 1..=20 {
        let before = device.counters();
        device.hooks.hold(true);
        let committed = Barrier::new(THREADS as usize + 1);
        std::thread::scope(|scope| {
            let (store, device, committed) = (&store, &device, &committed);
            let first = nodes[0];
            scope.spawn(move || {
                change(store, first, round);
                store.sync().expect("the first sync");
            });
            device.hooks.until_one_waits();
            for r in nodes[1..].iter().copied() {
                scope.spawn(move || {
                    change(store, r, round);
                    committed.wait();
                    store.sync().expect("a sync beside it");
                });
            }
            committed.wait();
            device.hooks.hold(false);
        });
        let cost = device.counters() - before;
        assert_eq!(cost.flushes, 2, "round {round}: {} threads synced", THREADS + 1);
        assert_eq!(cost.of(Class::Plog).operations, 2);
    }
    store.close().expect("close");
}

/// up to 64 MiB of new data are covered by the one flush; beyond, the data is flushed first.
#[test]
fn much_data_costs_a_flush_of_its_own() {
    let page = vec![7; 1 << 20];
    for (pieces, flushes) in [(64, 1), (65, 2)] {
        let device = held(131_072);
        let store = open(&device);
        let r = new_node(&store);
        store.sync().expect("sync");
        let before = device.counters();
        for _ in 0..pieces {
            let fresh = store
                .reserve(256, Purpose::New, keepfs_store::Near::Current)
                .expect("space");
            let mut at = 0;
            for run in fresh.runs() {
                let bytes = &page[at..at + run.count as usize * 4096];
                store.write_data(run.start, bytes).expect("data");
                at += bytes.len();
            }
            store
                .transact::<_, Error>(|t| {
                    fresh.runs().iter().try_for_each(|run| t.use_pages(*run))?;
                    Ok(t.put(r, 64, &[pieces], Meaning::Xattr)?)
                })
                .expect("naming");
            fresh.allocated();
        }
        store.sync().expect("sync");
        let cost = device.counters() - before;
        assert_eq!(cost.of(Class::Data).bytes, u64::from(pieces) << 20);
        assert_eq!(cost.flushes, flushes, "{pieces} MiB of data");
        store.close().expect("close");
    }
}

/// S-8.10: however long nobody syncs, no group is longer than told.
#[test]
fn groups_are_bounded() {
    let device = held(131_072);
    let store = open(&device);
    let nodes: Vec<Ref> = (0..4).map(|_| new_node(&store)).collect();
    std::thread::scope(|scope| {
        for (ino, r) in (100..).zip(&nodes) {
            let store = &store;
            scope.spawn(move || {
                for round in 0..150u32 {
                    let bytes = [round as u8; 4000];
                    store
                        .transact::<_, Error>(|t| {
                            t.put(*r, 64, &bytes, Meaning::Xattr)?;
                            // Staged bytes are not compacted.
                            (0..16).try_for_each(|i| t.stage(ino, i, round, None, 0, &bytes))?;
                            Ok(())
                        })
                        .expect("change");
                }
            });
        }
    });
    let seen = store.stats();
    assert!(seen.groups >= 2, "nobody but the bound cut groups: {}", seen.groups);
    assert!(seen.group_pages_max > 250, "{}", seen.group_pages_max);
    assert!(seen.group_pages_max <= group_pages_max(), "{}", seen.group_pages_max);
    store.close().expect("close");
}

/// S-14.13: while a flush is on its way transactions go on beyond an eighth of the ring; somebody else makes the redo durable.
#[test]
fn nobody_waits_while_redo_is_made_durable() {
    const EIGHTH: usize = 1 << 20;
    let device = held(16_384);
    let o = FormatOptions::default();
    Store::format(device.clone(), &o).expect("format");
    let options = StoreOptions {
        arena_bytes: 16 << 20,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).expect("open");
    let r = new_node(&store);
    let before = device.counters().flushes;
    device.hooks.hold(true);
    let change_much = |n: u64| {
        let bytes = n.to_le_bytes().repeat(400);
        let put = store.transact::<_, Error>(|t| Ok(t.put(r, 64, &bytes, Meaning::Xattr)?));
        put.expect("change");
    };
    // Half as much again as what the thread is asked at: if a caller flushed, it would wait here for ever.
    let changes = (3 * EIGHTH / 2 / 3300) as u64;
    (0..changes).for_each(change_much);
    device.hooks.until_one_waits();
    assert!(store.durable_seq() < store.last_seq());
    device.hooks.hold(false);
    while store.durable_seq() == 0 {
        std::thread::yield_now();
    }
    assert!(device.counters().flushes > before);
    // Without a pause the ring does not fill either.
    (0..8 * changes).for_each(change_much);
    store.close().expect("close");
}
