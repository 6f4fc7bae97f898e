//! Stray changes of redo and staged pages in a live store: told, stopped, and never on the device (S-14.4, S-14.6,
//! promise C-3).

use keepfs_format::{Kind, PAGE};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use std::sync::Arc;

const INO: u64 = 9;
const MARK: &[u8] = b"a mark to look up";

fn pool() -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    device
}

fn open(device: &Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

fn stage(store: &Store, index: u64, bytes: &[u8]) {
    let staged = store.transact::<_, Error>(|t| Ok(t.stage(INO, index, 1, None, 0, bytes)?));
    staged.expect("stage");
}

fn node(store: &Store, bytes: &[u8]) -> Ref {
    let node = store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, INO)?;
        t.put(r, 64, bytes, Meaning::Xattr)?;
        Ok(r)
    });
    node.expect("node")
}

fn staged(store: &Store, index: u64) -> Result<Option<[u8; PAGE]>, Error> {
    let mut page = [0; PAGE];
    Ok(store.staged(INO, index, &mut page)?.then_some(page))
}

/// Flips a bit of the staged page or redo that holds `mark`.
fn flip(store: &Store, mark: &[u8]) {
    let region = store.staging();
    let mut all = vec![0; region.bytes()];
    region.load(0, &mut all);
    let at = all
        .windows(mark.len())
        .position(|w| w == mark)
        .expect("the mark is there");
    region.xor_u8(at, 0x20);
}

fn device_has(device: &Arc<dyn Device>, bytes: &[u8]) -> bool {
    let mut page = vec![0; PAGE];
    (0..device.pages()).any(|number| {
        device.read(keepfs_media::PageNo(number), &mut page).expect("read");
        page.windows(bytes.len()).any(|w| w == bytes)
    })
}

/// S-10.3, S-14.6: what two strays leave nothing to hold a witness against is lost, in memory and in the log, and everything
/// else goes on.
#[test]
fn a_changed_staged_page_is_an_error_and_never_written() {
    let device = pool();
    let store = open(&device);
    stage(&store, 0, b"first");
    stage(&store, 1, b"second");
    store.sync().expect("durable by the log");
    let place = store.staged_place(INO, 0).expect("staged");
    store.staging().xor_u8(place, 0x20);
    store
        .staging()
        .xor_u8(store.staged_head_place(INO, 0).expect("staged") + 1, 1);
    let lost = |store: &Store| matches!(staged(store, 0), Err(Error::Lost { ino: INO, index: 0 }));
    assert!(lost(&store));
    assert_eq!(staged(&store, 1).expect("sound").expect("staged")[..6], *b"second");
    store.checkpoint().expect("all others are carried over");
    assert!(store.fault().is_none() && lost(&store));
    assert!(!device_has(&device, b"First"));
    drop(store);
    let store = open(&device);
    assert!(lost(&store));
    assert_eq!(staged(&store, 1).expect("sound").expect("staged")[..6], *b"second");
    assert_eq!(store.staged_lost(), [(INO, 0)]);
    store.checkpoint().expect("and it goes on");
}

/// S-14.4: the group is not written, a checkpoint makes its transaction durable, and the pool goes on.
#[test]
fn changed_redo_is_told_and_a_checkpoint_takes_its_place() {
    let device = pool();
    let store = open(&device);
    let before = node(&store, b"durable");
    store.sync().expect("sync");
    let after = node(&store, MARK);
    let seq = store.last_seq();
    flip(&store, MARK);
    let checkpoints = store.stats().checkpoints;
    store.sync().expect("a checkpoint");
    assert_eq!(store.stats().checkpoints, checkpoints + 1);
    let told = store.history().events(0).pop().expect("told");
    assert_eq!((told.place, told.verdict, told.at), (4, 10, seq));
    let changed: Vec<u8> = std::iter::once(MARK[0] ^ 0x20)
        .chain(MARK[1..].iter().copied())
        .collect();
    assert!(!device_has(&device, &changed));
    let last = node(&store, b"it goes on");
    store.sync().expect("sync");
    drop(store);
    let store = open(&device);
    for (r, bytes) in [(before, &b"durable"[..]), (after, MARK), (last, b"it goes on")] {
        let mut found = vec![0; bytes.len()];
        store.view().read(r, 64, &mut found).expect("read");
        assert_eq!(found, bytes);
    }
}

/// S-14.13: redo is bounded; a quarter of the ring makes everything durable.
#[test]
fn redo_is_bounded() {
    let device = pool();
    let store = open(&device);
    let r = node(&store, b"x");
    let flushes = store.stats().flushes;
    for n in 0..6000u32 {
        let bytes = [n.to_le_bytes(); 500].concat();
        let put = store.transact::<_, Error>(|t| Ok(t.put(r, 64, &bytes, Meaning::Xattr)?));
        put.expect("put");
    }
    assert!((5..=8).contains(&(store.stats().flushes - flushes)));
    store.close().expect("close");
    let mut found = [0; 4];
    open(&device).view().read(r, 64, &mut found).expect("read");
    assert_eq!(u32::from_le_bytes(found), 5999);
}
