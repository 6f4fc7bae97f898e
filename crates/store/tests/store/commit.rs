//! What is written when beside a checkpoint: groups, flushes, the superblock (SPEC sections 8 and 10).

use keepfs_format::Kind;
use keepfs_media::{Class, Device, DeviceError, PageNo};
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Event, Faults, Operation, SimDevice, When};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Its first flush waits until it is told to go on.
#[derive(Default)]
struct FirstFlush(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Hooks for FirstFlush {
    fn before_flush(&self) -> Result<(), DeviceError> {
        let first = self.0.lock().expect("lock").take();
        if let Some((reached, go)) = first {
            reached.send(()).expect("somebody waits for the flush");
            go.recv().expect("somebody lets it go on");
        }
        Ok(())
    }
}

fn pool(log_pages: u64) -> Arc<SimDevice> {
    let device = Arc::new(SimDevice::new(16_384));
    let o = FormatOptions {
        log_pages: Some(log_pages),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    device
}

fn open(device: Arc<dyn Device>) -> Arc<Store> {
    let o = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &o).expect("open")
}

fn new_node(store: &Store) -> Ref {
    store
        .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?))
        .expect("new node")
}

fn stage(store: &Store, version: u32, bytes: &[u8]) {
    store
        .transact::<_, Error>(|t| Ok(t.stage(5, 1, version, None, 0, bytes)?))
        .expect("stage");
}

/// S-8.11, S-10.6: a checkpoint flushes its old group before anything else is written, and that flush answers who waits for
/// a transaction of the moment.
#[test]
fn the_old_group_is_flushed_first() {
    let device = Arc::new(Hooked::new(pool(64), FirstFlush::default()));
    let store = open(device.clone());
    new_node(&store);
    let before = device.counters();
    let (reached, is_reached) = channel();
    let (go, may_go) = channel();
    *device.hooks.0.lock().expect("lock") = Some((reached, may_go));
    // Nothing is asserted in here: the checkpoint would wait for ever.
    let first = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint().expect("checkpoint"));
        is_reached.recv().expect("a flush");
        let first = device.counters() - before;
        let sync = scope.spawn(|| store.sync().expect("sync"));
        go.send(()).expect("go on");
        sync.join().expect("the sync");
        checkpoint.join().expect("the checkpoint");
        first
    });
    assert_eq!(first.of(Class::Plog).operations, 1, "the old group");
    assert_eq!(first.all_written(), first.of(Class::Plog), "nothing else");
    assert_eq!(
        (device.counters() - before).flushes,
        3,
        "old group, pages, superblock; the sync has none of its own"
    );
    let before = device.counters();
    store.checkpoint().expect("checkpoint");
    assert_eq!((device.counters() - before).flushes, 2, "without an old group");
}

/// Its first write of metadata waits until it is told to go on.
#[derive(Default)]
struct FirstPage(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Hooks for FirstPage {
    fn before_write(&self, _: PageNo, _: usize, class: Class) -> Result<(), DeviceError> {
        let waits = (class == Class::Metadata)
            .then(|| self.0.lock().expect("lock").take())
            .flatten();
        if let Some((reached, go)) = waits {
            reached.send(()).expect("somebody waits for the page");
            go.recv().expect("somebody lets it go on");
        }
        Ok(())
    }
}

/// S-10.11: a sync's flush fails once while a checkpoint writes its pages: no superblock leads to these.
#[test]
fn no_superblock_is_written_over_a_failed_flush() {
    let device = Arc::new(Hooked::new(pool(64), FirstPage::default()));
    let store = open(device.clone());
    new_node(&store);
    let before = device.counters();
    let (reached, is_reached) = channel();
    let (go, may_go) = channel();
    *device.hooks.0.lock().expect("lock") = Some((reached, may_go));
    let (sync, checkpoint) = std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        is_reached.recv().expect("a page");
        device
            .device
            .set_faults(Faults::none().fail(Operation::Flush, When::Nth(1)));
        new_node(&store);
        let sync = store.sync();
        go.send(()).expect("go on");
        (sync, checkpoint.join().expect("a thread"))
    });
    sync.expect_err("its flush failed");
    checkpoint.expect_err("a flush before its superblock failed");
    assert_eq!((device.counters() - before).of(Class::Superblock).operations, 0);
}

/// S-10.7: where the log has no room for a checkpoint's old group, no crash leaves the staged pages of its moment without
/// the rest of it.
#[test]
fn carried_pages_never_stand_alone() {
    let device = pool(20);
    let store = open(device.clone());
    stage(&store, 1, b"old");
    store.sync().expect("sync");
    stage(&store, 2, b"new");
    let nodes: Vec<Ref> = (0..30).map(|_| new_node(&store)).collect();
    let bytes = [7; 3900];
    for r in &nodes {
        let put = store.transact::<_, Error>(|t| Ok(t.put(*r, 64, &bytes, Meaning::Xattr)?));
        put.expect("change");
    }
    let first = device.log_len();
    store.checkpoint().expect("checkpoint");
    let recording = device.recording();
    let seen: Vec<(bool, bool)> = (first..=device.log_len())
        .map(|t| {
            let store = open(Arc::new(SimDevice::over(recording.replay_first(t))));
            let mut page = [0; 4096];
            assert!(store.staged(5, 1, &mut page).expect("staged"), "after {t} entries");
            let born = store.view().read(nodes[29], 64, &mut [0; 8]).is_ok();
            (page.starts_with(b"new"), born)
        })
        .collect();
    assert_eq!((seen[0], seen[seen.len() - 1]), ((false, false), (true, true)));
    assert!(seen.iter().all(|(staged, born)| staged == born), "{seen:?}");
}

/// What a recovered pool has: staged pages and the number in the node.
fn recovered(image: Image, r: Ref) -> (Vec<bool>, u64) {
    let store = open(Arc::new(SimDevice::over(image)));
    let staged = |index| store.staged(5, index, &mut [0; 4096]).expect("staged");
    let mut number = [0; 8];
    store.view().read(r, 64, &mut number).expect("the node");
    ((0..5).map(staged).collect(), u64::from_le_bytes(number))
}

/// S-10.8: a log that is as full as it gets, with as much staged as it carries, is cut while a checkpoint is written, and
/// again at each write of the recovery: what the first recovery would have found is found.
#[test]
fn recovery_has_room_for_what_it_carries() {
    let device = pool(20);
    let store = open(device.clone());
    let r = new_node(&store);
    let change = |number: u64| {
        let put = store.transact::<_, Error>(|t| Ok(t.put(r, 64, &number.to_le_bytes(), Meaning::Xattr)?));
        put.expect("change");
    };
    change(0);
    store.checkpoint().expect("checkpoint");
    for index in 0..5 {
        let bytes = [index as u8 + 1; 4096];
        let staged = store.transact::<_, Error>(|t| Ok(t.stage(5, index, 1, None, 0, &bytes)?));
        staged.expect("stage");
        store.sync().expect("sync");
    }
    let checkpoints = store.stats().checkpoints;
    let mut number = 1;
    while store.stats().checkpoints < checkpoints + 2 {
        change(number);
        store.sync().expect("sync");
        number += 1;
    }
    let recording = device.recording();
    let logged = |at: &usize| matches!(recording.log[*at].event, Event::Write { class: Class::Plog, .. });
    let mut cuts = 0;
    for at in (0..recording.log.len()).filter(logged) {
        let image = recording.replay_first(at + 1);
        let whole = recovered(image.clone(), r);
        for writes in 0.. {
            let again = Arc::new(SimDevice::over(image.clone()));
            again.set_faults(Faults::none().gone_after(writes));
            let o = StoreOptions {
                arena_bytes: 4 << 20,
                tiny_arena: true,
                background: false,
                ..StoreOptions::default()
            };
            let ended = Store::open(again.clone(), &o).is_ok();
            assert_eq!(
                recovered(again.image(), r),
                whole,
                "behind entry {at}, after {writes} writes of the recovery"
            );
            cuts += 1;
            if ended {
                break;
            }
        }
    }
    assert!(cuts > 100, "only {cuts} cuts");
}
