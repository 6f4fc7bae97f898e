//! Clauses of SPEC.md about recovery and checkpoints, one test each.

use keepfs_format::Kind;
use keepfs_store::{Error, FormatOptions, Meaning, Purpose, Ref, Source, Store, StoreOptions};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    }
}

fn pool(pages: u64) -> Arc<SimDevice> {
    let device = Arc::new(SimDevice::new(pages));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    device
}

fn open(device: &Arc<SimDevice>) -> Arc<Store> {
    Store::open(device.clone(), &options()).expect("open")
}

fn new_node(store: &Store, value: u64) -> Ref {
    store
        .transact::<_, Error>(|t| {
            let r = t.new_node(Kind::Xattr, 0, 9)?;
            t.put(r, 64, &value.to_le_bytes(), Meaning::Xattr)?;
            Ok(r)
        })
        .expect("transaction")
}

fn value(store: &Store, r: Ref) -> Option<u64> {
    let mut bytes = [0; 8];
    store.view().read(r, 64, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn stage(store: &Store, index: u64, bytes: &[u8]) {
    store
        .transact::<_, Error>(|t| Ok(t.stage(5, index, 1, None, 10, bytes)?))
        .expect("stage");
}

/// S-9.5: recovery writes a checkpoint of a new incarnation; done twice from the same image it gives the same state, and
/// an image cut at any of its writes recovers to it too.
#[test]
fn recovery_can_be_cut_and_repeated() {
    let device = pool(1024);
    let store = open(&device);
    let nodes: Vec<Ref> = (0..30).map(|i| new_node(&store, i)).collect();
    stage(&store, 3, b"tail");
    store.sync().expect("sync");
    store.kill();
    drop(store);
    let crashed = device.image();
    let recovering = Arc::new(SimDevice::over(crashed.clone()));
    drop(open(&recovering));
    let writes = recovering.log_len();
    assert!(writes > 0, "recovery wrote its checkpoint");
    for cut in 0..=writes {
        let again = Arc::new(SimDevice::over(crashed.clone()));
        again.set_faults(keepfs_testkit::sim::Faults::none().gone_after(cut as u64));
        drop(Store::open(again.clone(), &options()));
        let last = Arc::new(SimDevice::over(again.image()));
        let store = open(&last);
        for (i, r) in nodes.iter().enumerate() {
            assert_eq!(value(&store, *r), Some(i as u64), "cut after {cut} writes");
        }
        let mut page = [0; 4096];
        assert!(store.staged(5, 3, &mut page).expect("staged"));
        assert_eq!(&page[10..14], b"tail");
        assert_eq!(store.totals().nodes, 30);
    }
}

/// S-10.1: a checkpoint has what was committed before its moment, and the log has the rest, each once.
#[test]
fn a_checkpoint_and_the_log_behind_it_share_nothing() {
    let device = pool(1024);
    let store = open(&device);
    let before = new_node(&store, 1);
    let unsynced = new_node(&store, 2);
    store.checkpoint().expect("checkpoint");
    let after = new_node(&store, 3);
    store.sync().expect("sync");
    let lost = new_node(&store, 4);
    store.kill();
    drop(store);
    let store = open(&device);
    assert_eq!(value(&store, before), Some(1));
    assert_eq!(
        value(&store, unsynced),
        Some(2),
        "the checkpoint made it durable without a sync"
    );
    assert_eq!(value(&store, after), Some(3));
    assert_eq!(value(&store, lost), None);
    // Replaying a birth twice would be refused as damage.
    assert_eq!(store.totals().nodes, 3);
}

/// S-10.2: until the superblock is there, the checkpoint before it is whole: cut a checkpoint at every write.
#[test]
fn a_cut_checkpoint_leaves_the_one_before() {
    let device = pool(1024);
    let store = open(&device);
    let nodes: Vec<Ref> = (0..40).map(|i| new_node(&store, i)).collect();
    store.checkpoint().expect("checkpoint");
    nodes.iter().for_each(|r| {
        let changed = store.transact::<_, Error>(|t| Ok(t.put(*r, 64, &77u64.to_le_bytes(), Meaning::Xattr)?));
        changed.expect("change");
    });
    let first = device.log_len();
    store.checkpoint().expect("checkpoint");
    let recording = device.recording();
    drop(store);
    let mut seen: Vec<Vec<Option<u64>>> = Vec::new();
    for t in first..=device.log_len() {
        let store = open(&Arc::new(SimDevice::over(recording.replay_first(t))));
        seen.push(nodes.iter().map(|r| value(&store, *r)).collect());
    }
    // What was durable before, or everything: nothing between, and never back.
    let new: Vec<Option<u64>> = nodes.iter().map(|_| Some(77)).collect();
    let turn = seen
        .iter()
        .position(|s| *s == new)
        .expect("the checkpoint became durable");
    assert!(seen[..turn].iter().all(|s| *s == seen[0]), "half a checkpoint");
    assert!(seen[turn..].iter().all(|s| *s == new), "a checkpoint became undone");
    assert_ne!(seen[0], new);
}

/// S-10.3: staged data is carried over a checkpoint: the log that had it is gone, the data is not.
#[test]
fn staged_data_is_carried_over() {
    let device = pool(1024);
    let store = open(&device);
    stage(&store, 1, b"first");
    store.sync().expect("sync");
    stage(&store, 2, b"never synced by itself");
    for _ in 0..3 {
        store.checkpoint().expect("checkpoint");
    }
    store.kill();
    drop(store);
    let store = open(&device);
    let mut page = [0; 4096];
    assert!(store.staged(5, 1, &mut page).expect("staged"));
    assert_eq!(&page[10..15], b"first");
    assert!(store.staged(5, 2, &mut page).expect("staged"));
    assert_eq!(&page[10..32], b"never synced by itself");
}

/// S-10.4: checkpoint after checkpoint of all metadata that the arena may hold dirty finds its pages, on a small pool.
#[test]
fn checkpoints_never_run_out_of_pages() {
    let device = pool(1024);
    let store = open(&device);
    let nodes: Vec<Ref> = (0..60).map(|i| new_node(&store, i)).collect();
    for round in 0..200u64 {
        for r in &nodes {
            let changed = store.transact::<_, Error>(|t| Ok(t.put(*r, 64, &round.to_le_bytes(), Meaning::Xattr)?));
            changed.expect("change");
        }
        store.checkpoint().expect("the reserve is enough");
    }
    assert!(nodes.iter().all(|r| value(&store, *r) == Some(199)));
    assert!(store.figures().free > 1024 / 4, "{:?}", store.figures());
}

/// Nodes that are born and die again, with a sync far away: their numbers do not come again, so that their dead entries
/// lie all over the map.
fn come_and_go(store: &Store, nodes: usize) -> Result<(), Error> {
    const AT_ONCE: usize = 20;
    for _ in 0..nodes.div_ceil(AT_ONCE) {
        let born = store.transact::<_, Error>(|t| {
            let refs: Result<Vec<Ref>, _> = (0..AT_ONCE).map(|_| t.new_node(Kind::Xattr, 0, 9)).collect();
            Ok(refs?)
        })?;
        store.transact::<_, Error>(|t| Ok(born.iter().try_for_each(|r| t.free_node(*r))?))?;
    }
    Ok(())
}

/// S-10.4, S-10.5: however many metablocks were made and deleted, on a pool that is full but for a few pages, the next
/// checkpoint finds room for the map pages of all of them, and deleting still works.
#[test]
fn a_map_of_dead_entries_fits_into_the_reserve() {
    // What the nodes of one transaction need.
    const LEFT: u64 = 200;
    for (pages, meta_copies) in [(4096, 2), (4096, 1), (16_384, 2)] {
        let device = Arc::new(SimDevice::new(pages));
        let format = FormatOptions {
            meta_copies,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &format).expect("format");
        let store = open(&device);
        let nodes: Vec<Ref> = (0..200).map(|i| new_node(&store, i)).collect();
        store.checkpoint().expect("checkpoint");
        while store.figures().available(Purpose::New) > LEFT {
            let some = (store.figures().available(Purpose::New) - LEFT).min(64) as u32;
            let room = store
                .reserve(some, Purpose::New, keepfs_store::Near::Current)
                .expect("room");
            let used = store.transact::<_, Error>(|t| Ok(room.runs().iter().try_for_each(|run| t.use_pages(*run))?));
            used.expect("use");
            room.allocated();
        }
        for round in 0..2 {
            come_and_go(&store, 30_000).expect("they come and go");
            store
                .checkpoint()
                .unwrap_or_else(|e| panic!("{pages} pages, round {round}: {e}"));
        }
        for r in nodes {
            store.transact::<_, Error>(|t| Ok(t.free_node(r)?)).expect("delete");
        }
        store.close().expect("close");
    }
}

/// S-14.7, S-10.3: however many threads stage, the log can carry all staged pages over a checkpoint.
#[test]
fn no_more_is_staged_than_the_log_carries() {
    let device = pool(2048);
    let store = open(&device);
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let stage_all = |first: u64| {
            let store = &store;
            let one = move |index: &u64| {
                let bytes = vec![*index as u8; 4000];
                let staged = store.transact::<_, Error>(|t| Ok(t.stage(5, *index, 1, None, 10, &bytes)?));
                assert!(matches!(staged, Ok(()) | Err(Error::NoSpace)), "{staged:?}");
                staged.is_ok()
            };
            scope.spawn(move || (first..first + 200).filter(one).collect::<Vec<_>>())
        };
        let threads: Vec<_> = [0, 1000, 2000, 3000].into_iter().map(stage_all).collect();
        threads.into_iter().flat_map(|t| t.join().expect("thread")).collect()
    });
    assert_eq!(store.staged_total(), acknowledged.len());
    assert!(acknowledged.len() < 800, "the limit was met");
    store.checkpoint().expect("it carries all over");
    store.kill();
    drop(store);
    let again = open(&device);
    for index in acknowledged {
        let mut page = [0; 4096];
        assert!(again.staged(5, index, &mut page).expect("read"), "{index}");
        assert_eq!(page[10..4010], [index as u8; 4000]);
    }
}
