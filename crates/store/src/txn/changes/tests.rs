//! What the auditor is not shown, and what does not read back from the undo log, ends the transaction.

use crate::error::{Error, Stop};
use crate::{Equations, FormatOptions, Meaning, Near, Purpose, Ref, Store, StoreOptions, Txn};
use keepfs_codes::Protection;
use keepfs_codes::identity::Group;
use keepfs_flash::checkpoint::Wish;
use keepfs_format::bitmap::{self, TOTAL_SHARES, TOTALS};
use keepfs_format::plog::Run;
use keepfs_format::{Kind, MetaId, PAGE, Space};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_memory::failpoint;
use keepfs_pool::events::Done;
use keepfs_vault::update::by_hand as update;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    let pin = store.fetch(TOTALS).expect("totals");
    let content = || {
        let mut copy = [0; PAGE];
        store.verified_copy(&pin, &mut copy).expect("right");
        copy
    };
    let before = content();
    let mut txn = Txn::begin(&store);
    let place = (Group::Bitmap, pin.frame);
    update::put(&store.frames.arena, &mut txn.undo, place, TOTAL_SHARES, &[1; 8]).expect("a change");
    assert_ne!(content(), before);
    match txn.seal().err() {
        Some(Stop::Error(Error::Logic(what))) => assert!(what.contains(&format!("frame {}", pin.frame)), "{what}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(content(), before);
    // Bytes of a page are changed through the transaction or not at all.
    let mut txn = Txn::begin(&store);
    update::put(
        &store.frames.arena,
        &mut txn.undo,
        (Group::Bitmap, pin.frame),
        4000,
        &[1],
    )
    .expect("a change");
    assert!(matches!(txn.seal().err(), Some(Stop::Error(Error::Logic(_)))));
}

/// A pool with a node and two pages of a file, one of them free.
struct World {
    device: Arc<dyn Device>,
    store: Arc<Store>,
    node: Ref,
    used: Run,
    free: Run,
}

const OLD: &[u8] = b"what it was";
const NEW: &[u8] = b"what it is!";
/// Where a slot has its first record.
const FIRST: usize = 128;
/// Bytes of a record's head.
const HEAD: usize = 40;

fn opened(device: &Arc<dyn Device>, protect: Protection) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,
        protect: Some(protect),
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

impl World {
    fn new(protect: Protection) -> World {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        let store = opened(&device, protect);
        let page = |store: &Store| store.reserve(1, Purpose::New, Near::Current).expect("a page").runs()[0];
        let used = page(&store);
        let node = store.transact::<_, Error>(|t| {
            t.use_pages(used)?;
            Ok(t.new_node(Kind::Xattr, 0, 9)?)
        });
        let (node, free) = (node.expect("node"), page(&store));
        let world = World {
            device,
            store,
            node,
            used,
            free,
        };
        world.put(OLD);
        world.store.fetch(MetaId::new(Space::Shares, 0)).expect("shares");
        world
    }

    fn put(&self, bytes: &[u8]) {
        let put = |t: &mut Txn<'_>| Ok(t.put(self.node, 100, bytes, Meaning::Xattr)?);
        self.store.transact::<_, Error>(put).expect("put");
    }

    /// An open transaction with records of all kinds, in metablocks of all kinds of owners.
    fn changed(&self) -> Txn<'_> {
        let mut txn = Txn::begin(&self.store);
        txn.put(self.node, 100, NEW, Meaning::Xattr).expect("put");
        txn.use_pages(self.free).expect("bits");
        assert!(txn.share_pages(self.used).expect("shares"));
        txn.catch_up().expect("totals");
        txn
    }

    /// All that the transaction changes.
    fn content(&self) -> Vec<[u8; PAGE]> {
        let shared = [Space::Pages, Space::Shares].map(|space| MetaId::new(space, 0));
        let ids = [self.node.id, TOTALS].into_iter().chain(shared);
        ids.map(|id| {
            let mut copy = [0; PAGE];
            let pin = self.store.fetch(id).expect("fetched");
            self.store.verified_copy(&pin, &mut copy).expect("right");
            copy
        })
        .collect()
    }

    fn scribble(&self, txn: &Txn<'_>, byte: usize) {
        scribble(&self.store, txn.undo.place().0, byte);
    }

    fn told(&self) -> usize {
        self.store.history().events(0).len()
    }
}

/// Changes a byte of an undo slot, counted from its first record.
fn scribble(store: &Store, slot: u16, byte: usize) {
    let at = FIRST + byte;
    store.frames.undo.scribble(slot.into(), at & !7, 0x41 << (8 * (at & 7)));
}

/// For each byte of the records, whether somebody reads it.
fn bytes_read(txn: &Txn<'_>) -> Vec<bool> {
    let mut buf = Vec::new();
    let copied = txn.undo.copied(&mut buf);
    let mut read = Vec::new();
    for told in txn.undo.forwards(copied) {
        let told = told.expect("whole");
        let room = told.old.len().next_multiple_of(8);
        let image = (0..room).map(|i| i < told.old.len());
        read.extend((0..HEAD).map(|_| true).chain(image.clone()).chain(image));
    }
    read
}

/// S-13.10: any byte of any record is changed before the transaction is sealed, between seal and commit, or before it is rolled
/// back: frames, log and image are those of a transaction that was done whole or not at all, and it is told.
#[test]
fn a_record_that_does_not_read_back_is_never_used() {
    let world = World::new(Protection::Pcrc);
    let before = world.content();
    let read = bytes_read(&world.changed());
    assert_eq!(
        read.iter().filter(|is| !**is).count(),
        2 * (5 + 7 + 6),
        "padding of three records"
    );
    for (byte, is_read) in read.iter().copied().enumerate() {
        for sealed in [true, false] {
            let told = world.told();
            let txn = world.changed();
            world.scribble(&txn, byte);
            match sealed {
                true => match (txn.seal().err(), is_read) {
                    (None, false) | (Some(Stop::Error(Error::Damaged(_))), true) => {}
                    other => panic!("byte {byte}: {other:?}"),
                },
                false => drop(txn),
            }
            assert!(world.content() == before, "byte {byte}, sealed {sealed}");
            assert_eq!(world.told() > told, is_read, "byte {byte}, sealed {sealed}");
            assert!(
                world.store.fault().is_none() && world.store.fenced() == 0,
                "byte {byte}"
            );
        }
    }
    // Behind the seal nobody reads it: the redo is encoded.
    let txn = world.changed();
    let slot = txn.undo.place().0;
    let Ok(sealed) = txn.seal() else { panic!("not sealed") };
    (0..read.len()).for_each(|byte| scribble(&world.store, slot, byte));
    sealed.commit();
    let after = world.content();
    assert_eq!(after[0][100..][..NEW.len()], *NEW);
    world.store.sync().expect("sync");
    world.store.kill();
    let again = World {
        store: opened(&world.device, Protection::Pcrc),
        ..world
    };
    // Totals and bitmap have the recovery's own checkpoint in them.
    let recovered = again.content();
    assert!(
        recovered[0] == after[0] && recovered[3] == after[3],
        "after a power cut"
    );
    let (_, at, mask) = bitmap::bit(Space::Pages, again.free.start);
    assert_eq!(recovered[2][at] & mask, mask);
}

/// S-13.10, S-13.13: a record is changed before any store of the rollback: all is taken back, each record being read when it is used.
#[test]
fn a_record_changed_during_the_rollback_is_never_used() {
    let world = World::new(Protection::Pcrc);
    let before = world.content();
    // Frame, D, an old and a new byte of the first record, and of the last one.
    let len = bytes_read(&world.changed()).len();
    let last = len - HEAD - 16;
    for byte in [
        8,
        24,
        HEAD + 3,
        HEAD + 19,
        last + 8,
        last + 24,
        last + HEAD,
        last + HEAD + 8,
    ] {
        for stores in 0.. {
            let txn = world.changed();
            let (store, slot) = (world.store.clone(), txn.undo.place().0);
            let came = failpoint::interrupt(stores, Box::new(move || scribble(&store, slot, byte)), || drop(txn));
            assert!(world.content() == before, "byte {byte} before store {stores}");
            assert!(world.store.fault().is_none() && world.store.fenced() == 0);
            if !came {
                break;
            }
        }
    }
}

/// S-13.13: where no sum tells, ranges come from the only content that the witness tells; a bit of a bitmap, of which nothing
/// tells, ends writing.
#[test]
fn without_a_sum_what_nothing_proves_ends_writing() {
    let world = World::new(Protection::Off);
    let before = world.content();
    let txn = world.changed();
    world.scribble(&txn, HEAD);
    drop(txn);
    assert!(world.content() == before && world.store.fault().is_none());
    let last = world.store.history().events(0).pop().expect("told");
    assert_eq!(
        (last.place, last.verdict, last.done),
        (9, 10, Done::Rebuilt as u8),
        "{last:?}"
    );
    let txn = world.changed();
    world.scribble(&txn, HEAD + 32 + HEAD);
    drop(txn);
    assert!(world.store.fault().is_some());
    let last = world.store.history().events(0).pop().expect("told");
    assert_eq!(
        (last.place, last.verdict, last.done),
        (9, 10, Done::Ended as u8),
        "{last:?}"
    );
    // What no transaction did is in a frame that has its sums: no checkpoint has a moment any more (S-15.17).
    assert!(
        world
            .store
            .home
            .flash()
            .checkpoint_as(&world.store, Wish::default())
            .is_err()
    );
}

/// S-16.8: of a server that another one follows.
#[test]
fn what_a_rollback_cannot_bring_back_is_handed_on() {
    let world = World::new(Protection::Off);
    let ended = Arc::new(AtomicBool::new(false));
    let end = ended.clone();
    world
        .store
        .hand_on_to_successor(move |_| end.store(true, Ordering::Relaxed));
    let txn = world.changed();
    world.scribble(&txn, HEAD + 32 + HEAD);
    drop(txn);
    assert!(ended.load(Ordering::Relaxed));
    let last = world.store.history().events(0).pop().expect("told");
    assert_eq!((last.place, last.done), (9, Done::HandedOn as u8), "{last:?}");
}

type Between = fn(&Txn<'_>, &[u8]);

thread_local! {
    static BETWEEN: Cell<Option<Between>> = const { Cell::new(None) };
}

/// What a test does between the judgement of a transaction and its redo, told the copy of its undo records.
pub(super) fn between(txn: &Txn<'_>, copied: &[u8]) {
    if let Some(between) = BETWEEN.take() {
        between(txn, copied);
    }
}

/// A stray write, by the address alone.
fn strike(at: *const u8) {
    let memory = File::options().read(true).write(true).open("/proc/self/mem");
    let (memory, at) = (memory.expect("memory"), at.addr() as u64);
    let mut byte = [0];
    memory.read_exact_at(&mut byte, at).expect("read");
    memory.write_all_at(&[byte[0] ^ 4], at).expect("written");
}

/// S-13.9, S-13.10: what is changed when the transaction was judged, and before its redo is whole, is seen too.
#[test]
#[cfg_attr(miri, ignore = "there is no /proc/self/mem")]
fn what_is_changed_between_judgement_and_redo_is_seen() {
    let world = World::new(Protection::Pcrc);
    let before = world.content();
    let cases: [(Between, &str); 2] = [
        (
            |_, copied| strike(&raw const copied[HEAD + OLD.len().next_multiple_of(8)]),
            "undo",
        ),
        (
            |txn, _| {
                let logged = txn.touched.iter().find(|t| !t.ranges.is_empty());
                strike(logged.expect("a range").ranges.as_ptr().cast());
            },
            "which bytes a transaction logs",
        ),
    ];
    for (round, (between, told)) in cases.into_iter().enumerate() {
        BETWEEN.set(Some(between));
        let sealed = world.changed().seal();
        assert!(
            matches!(sealed.err(), Some(Stop::Error(Error::Damaged(_) | Error::Records))),
            "{told}"
        );
        let events = world.store.history().events(0);
        assert_eq!(events.len(), round + 1, "{events:?}");
        assert!(events[round].text.contains(told), "{events:?}");
        assert!(world.content() == before);
    }
}
