//! What a resume makes of damaged memory, and of a device that had failed (S-16.4, S-16.6). The rest: `segment/tests.rs`, and
//! the lab's servers that are killed.

mod adopted;

use super::*;
use crate::{Equations, FormatOptions, Meaning, Ref, Source};
use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, PageNo};
use keepfs_testkit::sim::{Faults, Operation, SimDevice, When};
use keepfs_vault::restart::Finding;

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        lasting: true,
        audit: Equations::NONE,
        ..StoreOptions::default()
    }
}

/// A pool with a node that is not synced.
fn pool() -> (Arc<dyn Device>, Arc<Store>, Ref) {
    pool_on(Arc::new(RamDevice::new(4096)))
}

fn pool_on(device: Arc<dyn Device>) -> (Arc<dyn Device>, Arc<Store>, Ref) {
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = Store::open(device.clone(), &options()).expect("open");
    let made = store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(r, 64, b"not synced", Meaning::Xattr)?;
        Ok(r)
    });
    (device, store, made.expect("node"))
}

fn resume(device: &Arc<dyn Device>, remains: Remains) -> (Arc<Store>, Resumed) {
    Store::resume(device.clone(), &options(), remains, |_| {}).expect("resumed")
}

fn content(store: &Store, r: Ref) -> [u8; 10] {
    let mut found = [0; 10];
    store.view().read(r, 64, &mut found).expect("read");
    found
}

/// A stray write into the arena of the dead server is told with its bytes, and nowhere in the new one.
#[test]
fn a_scribbled_frame_is_evidence_only() {
    let (device, store, r) = pool();
    let frame = store.frames.cache.pin(r.id).expect("in the arena").frame;
    store.frames.arena.strays().xor_u8(frame as usize * 4096 + 66, 0x20);
    let remains = store.remains().expect("it lasts");
    drop(store);
    let (store, resumed) = resume(&device, remains);
    assert_eq!(content(&store, r), *b"not synced");
    let seen = crate::Seen::Flips(vec![(66, 5)]);
    let damage = crate::Damage {
        id: r.id,
        frame,
        seen,
        owner: 9,
        window_ms: None,
    };
    assert_eq!(resumed.findings, [Evidence::Frame(damage)]);
    assert_eq!(resumed.lost, 0);
}

/// S-2.27: a server takes over a pool of which each slot of the superblock in force has got a wrong bit.
#[test]
fn a_wrong_bit_in_each_superblock_costs_nothing() {
    for bit in [850, 2100, 4096 * 8 - 3] {
        let (device, store, r) = pool();
        store.sync().expect("sync");
        let remains = store.remains().expect("it lasts");
        drop(store);
        for slot in 0..4 {
            let (place, mut page) = (PageNo(slot * 1024), [0; 4096]);
            device.read(place, &mut page).expect("read");
            if page != [0; 4096] {
                page[bit / 8] ^= 1 << (bit % 8);
                device.write(place, &page, Class::Superblock).expect("write");
            }
        }
        let (store, resumed) = resume(&device, remains);
        assert_eq!((content(&store, r), resumed.lost), (*b"not synced", 0), "bit {bit}");
        let is_told = |event: &keepfs_format::history::Event| (event.place, event.verdict, event.done) == (11, 1, 1);
        assert!(store.history().events(0).iter().any(is_told), "bit {bit}");
    }
}

/// S-13.2: a stray write over one of the places of the layout's word is told, and the arena is looked at; over both it is not, and
/// a server that had only the first place is no finding.
#[test]
fn the_layout_stands_twice() {
    let first = keepfs_vault::undo::SLOTS;
    for (places, looks) in [
        (vec![(8, 0xFF00)], true),
        (vec![(8 + 2048, 0xFF00)], true),
        (vec![(8 + 2048, 2)], true),
        (vec![(8, 1), (8 + 2048, 2)], false),
    ] {
        let (device, store, r) = pool();
        let frame = store.frames.cache.pin(r.id).expect("in the arena").frame;
        store.frames.arena.strays().xor_u8(frame as usize * 4096 + 66, 0x20);
        for (word, xor) in &places {
            store.frames.undo.scribble(first, *word, *xor);
        }
        let remains = store.remains().expect("it lasts");
        drop(store);
        let (store, resumed) = resume(&device, remains);
        assert_eq!((content(&store, r), resumed.lost), (*b"not synced", 0));
        let is_frame = |f: &Evidence| matches!(f, Evidence::Frame(_));
        assert_eq!(resumed.findings.iter().any(is_frame), looks, "{places:?}");
        let told = Evidence::Twice("session", "layout", true);
        assert_eq!(resumed.findings.contains(&told), places[0].1 == 0xFF00, "{places:?}");
        let is_arena = |f: &Evidence| matches!(f, Evidence::Memory("arena", _));
        assert_eq!(resumed.findings.iter().any(is_arena), !looks, "{places:?}");
    }
}

/// A damaged undo slot costs nothing that was acknowledged.
#[test]
fn a_damaged_undo_slot_is_told() {
    let (device, store, r) = pool();
    store.frames.undo.scribble(3, 0, 0xFF00);
    let remains = store.remains().expect("it lasts");
    drop(store);
    let (store, resumed) = resume(&device, remains);
    assert_eq!(content(&store, r), *b"not synced");
    let slot = Finding::Slot { slot: 3 };
    assert_eq!(
        (resumed.lost, &resumed.findings[..]),
        (0, &[Evidence::Rollback(slot)][..])
    );
}

/// Without memory it is a recovery after a power cut, and that is told.
#[test]
fn without_memory_it_is_a_power_cut() {
    let (device, store, r) = pool();
    drop(store);
    let (store, resumed) = resume(&device, Remains::default());
    assert!(store.view().read(r, 64, &mut [0; 10]).is_err());
    assert_eq!((resumed.lost, resumed.findings.len()), (1, 4));
}

/// S-11.1, S-16.5: what the redo freed is nobody's before the checkpoint that ends the recovery is durable, and free then.
#[test]
fn freed_pages_wait_for_the_checkpoint() {
    let (device, store, _) = pool();
    let pages = store
        .reserve(4, crate::Purpose::New, crate::Near::Current)
        .expect("pages");
    let runs = pages.runs().to_vec();
    let used = store.transact::<_, Error>(|t| Ok(runs.iter().try_for_each(|run| t.use_pages(*run))?));
    used.expect("used");
    pages.allocated();
    store.sync().expect("sync");
    let freed = store.transact::<_, Error>(|t| Ok(t.free_page(runs[0].start)?));
    freed.expect("freed");
    let quarantine = store.alloc.space.quarantined();
    assert_eq!(quarantine.len(), 1);
    let remains = store.remains().expect("it lasts");
    drop(store);
    let read_only = StoreOptions {
        read_only: true,
        ..options()
    };
    let again = remains.duplicate().expect("again");
    let (store, _) = Store::resume(device.clone(), &read_only, again, |_| {}).expect("resumed");
    assert_eq!(store.alloc.space.quarantined(), quarantine);
    drop(store);
    let (store, _) = resume(&device, remains);
    assert_eq!(store.alloc.space.quarantined(), []);
}

/// S-9.5: nor is what a group freed which no page tells as durable: behind a power cut the next recovery may refuse that group. So it
/// is where the power went, and where a server is resumed.
#[test]
fn what_an_untold_group_freed_waits_for_the_checkpoint() {
    let sim = Arc::new(SimDevice::new(4096));
    let (device, store, _) = pool_on(sim.clone());
    let pages = store.reserve(4, crate::Purpose::New, crate::Near::Current);
    let runs = pages.expect("pages").runs().to_vec();
    let used = store.transact::<_, Error>(|t| Ok(runs.iter().try_for_each(|run| t.use_pages(*run))?));
    used.expect("used");
    store.checkpoint().expect("checkpoint");
    let freed = store.transact::<_, Error>(|t| Ok(t.free_page(runs[0].start)?));
    freed.expect("freed");
    let quarantine = store.alloc.space.quarantined();
    assert_eq!(quarantine.len(), 1);
    store.sync().expect("sync");
    assert_eq!(store.alloc.space.quarantined(), []);
    let untold = sim.power_cut(0);
    let remains = store.remains().expect("it lasts");
    let read_only = StoreOptions {
        read_only: true,
        ..options()
    };
    let again = remains.duplicate().expect("again");
    let (resumed, _) = Store::resume(device.clone(), &read_only, again, |_| {}).expect("resumed");
    assert_eq!(resumed.alloc.space.quarantined(), quarantine, "resumed");
    drop(resumed);
    store.write_durable().expect("told");
    device.flush().expect("the medium has it");
    for (image, kept) in [(untold, &quarantine[..]), (sim.power_cut(0), &[])] {
        let device: Arc<dyn Device> = Arc::new(SimDevice::over(image));
        let store = Store::open(device.clone(), &read_only).expect("opened");
        assert_eq!(store.alloc.space.quarantined(), kept);
        drop(store);
        let store = Store::open(device, &options()).expect("opened");
        assert_eq!(store.alloc.space.quarantined(), []);
    }
}

/// S-16.6: after a failure of the device nothing is written, what was acknowledged is read, in every life.
#[test]
fn a_device_that_failed_is_not_written_by_the_next_life() {
    let (device, store, r) = pool();
    store.home.flash().log.segment.note_device_failed();
    let mut remains = store.remains().expect("it lasts");
    drop(store);
    let mut before = vec![0; 4096 * 4096];
    device.read(keepfs_media::PageNo(0), &mut before).expect("read");
    for _ in 0..2 {
        let (store, resumed) = resume(&device, remains);
        assert!(resumed.device_failed && store.is_read_only() && store.fault().is_some());
        assert_eq!(content(&store, r), *b"not synced");
        assert!(store.begin_writing().is_err());
        remains = store.remains().expect("it lasts");
    }
    let mut after = vec![0; 4096 * 4096];
    device.read(keepfs_media::PageNo(0), &mut after).expect("read");
    assert!(before == after);
}

/// S-9.23: a flush that fails is told once. A resume that hears of it writes nothing, and no life behind it does, though every
/// later flush succeeds: they would read what the medium lacks.
#[test]
fn a_flush_that_fails_at_a_resume_ends_writing_in_every_life() {
    let sim = Arc::new(SimDevice::new(4096));
    let (device, store, r) = pool_on(sim.clone());
    let mut remains = store.remains().expect("it lasts");
    drop(store);
    let written = sim.log_len();
    sim.set_faults(Faults::none().fail(Operation::Flush, When::Nth(1)));
    for _ in 0..2 {
        let (store, resumed) = resume(&device, remains);
        assert!(resumed.device_failed && store.is_read_only() && store.fault().is_some());
        assert_eq!(content(&store, r), *b"not synced");
        remains = store.remains().expect("it lasts");
    }
    assert_eq!(sim.log_len(), written);
}
