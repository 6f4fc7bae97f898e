//! The two copies of metadata lie an eighth of the device apart, wherever there is room for that (SPEC S-4.9).

use crate::walked::check;
use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Guard, Meaning, Near, Purpose, Ref, RestPlace, Store, StoreOptions};
use std::sync::Arc;

fn close_copies(device: &dyn Device) -> u64 {
    check(device).counts.close_copies
}

fn format(pages: u64) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(pages));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    device
}

fn open(device: &Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 16 << 20,
        guard: Guard::Off,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

fn pool(pages: u64) -> (Arc<dyn Device>, Arc<Store>) {
    let device = format(pages);
    let store = open(&device);
    (device, store)
}

fn new_node(store: &Store) -> Result<Ref, Error> {
    store.transact(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?))
}

fn change(store: &Store, r: Ref, byte: u8) {
    let done = store.transact::<_, Error>(|t| Ok(t.put(r, 100, &[byte; 9], Meaning::Xattr)?));
    done.expect("changed");
}

fn free(store: &Store, run: keepfs_format::plog::Run) {
    let pages = run.start..run.start + u64::from(run.count);
    let done = store.transact::<_, Error>(|t| Ok(pages.clone().try_for_each(|page| t.free_page(page))?));
    done.expect("freed");
}

/// Allocates all pages that new data may have.
fn fill(store: &Store) -> Vec<keepfs_format::plog::Run> {
    let mut taken = Vec::new();
    loop {
        let most = store.figures().obtainable(Purpose::New).min(64) as u32;
        if most == 0 {
            return taken;
        }
        let Ok(room) = store.reserve(most, Purpose::New, Near::Current) else {
            return taken;
        };
        taken.extend_from_slice(room.runs());
        let used = store.transact::<_, Error>(|t| Ok(room.runs().iter().try_for_each(|run| t.use_pages(*run))?));
        used.expect("allocated");
        room.allocated();
    }
}

/// S-4.9: in new pools of several sizes, while metadata grows, changes, dies and is given back.
#[test]
fn copies_lie_apart_while_metadata_comes_and_goes() {
    for pages in [512, 2048, 30_000] {
        let (device, store) = pool(pages);
        assert_eq!(close_copies(&*device), 0, "{pages} pages, as it was made");
        let mut nodes = Vec::new();
        for round in 0..6u8 {
            for _ in 0..pages.min(4096) / 64 {
                nodes.push(new_node(&store).expect("made"));
            }
            nodes.iter().step_by(3).for_each(|r| change(&store, *r, round));
            store.checkpoint().expect("durable");
            assert_eq!(close_copies(&*device), 0, "{pages} pages, round {round}");
        }
        for r in nodes.drain(..nodes.len() * 3 / 4) {
            store.transact::<_, Error>(|t| Ok(t.free_node(r)?)).expect("freed");
        }
        for round in 0..12 {
            nodes.iter().step_by(5).for_each(|r| change(&store, *r, round));
            store.checkpoint().expect("durable");
            assert_eq!(close_copies(&*device), 0, "{pages} pages, shrinking, round {round}");
        }
        store.close().expect("close");
        assert_eq!(close_copies(&*device), 0, "{pages} pages, closed");
        let store = open(&device);
        change(&store, nodes[0], 77);
        store.close().expect("close");
        let report = check(&*device);
        assert_eq!(report.counts.close_copies, 0, "{pages} pages, opened again");
    }
}

/// S-4.9: metadata that grows in a pool whose data fills its first half.
#[test]
fn copies_lie_apart_behind_much_data() {
    let (device, store) = pool(16_384);
    while store.figures().free > 8192 {
        let room = store.reserve(64, Purpose::New, Near::Current).expect("free");
        let used = store.transact::<_, Error>(|t| Ok(room.runs().iter().try_for_each(|run| t.use_pages(*run))?));
        used.expect("allocated");
        room.allocated();
    }
    for round in 0..20 {
        for _ in 0..100 {
            new_node(&store).expect("made");
        }
        store.checkpoint().expect("durable");
        assert_eq!(close_copies(&*device), 0, "round {round}");
    }
    store.close().expect("close");
}

/// S-4.9, S-19.3: a full pool goes on with pairs that are close, which are counted; when there is room, a scrub moves them.
#[test]
fn a_full_pool_has_close_copies_and_a_scrub_moves_them() {
    let (device, store) = pool(4096);
    let filled = fill(&store);
    let mut nodes = Vec::new();
    // All that is left between the data lies in few places: metadata grows into what is freed there.
    let (low, _): (Vec<_>, Vec<_>) = filled.iter().copied().partition(|run| run.start < 600);
    assert!(!low.is_empty());
    for run in &low {
        free(&store, *run);
    }
    store.sync().expect("durable");
    while let Ok(node) = new_node(&store) {
        nodes.push(node);
    }
    store.checkpoint().expect("durable");
    let close = close_copies(&*device);
    assert!(close > 10, "{close} close pairs of {} nodes", nodes.len());
    let high: Vec<_> = filled.iter().copied().filter(|run| run.start >= 600).collect();
    for run in high {
        free(&store, run);
    }
    store.checkpoint().expect("durable");
    // There is no more room in one checkpoint than what may wait for it (S-10.5).
    for _ in 0..20 {
        let mut next = Some(RestPlace::START);
        while let Some(place) = next {
            next = store.scrub_rest(place).expect("looked at").1;
        }
        let wants = store.has_copies_to_write();
        store.checkpoint().expect("durable");
        if !wants {
            break;
        }
    }
    assert_eq!(close_copies(&*device), 0, "of {close}");
    assert!(!store.has_copies_to_write());
    store.close().expect("close");
}
