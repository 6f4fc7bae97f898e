//! S-2.13: a superblock alone decides, whenever the power goes, and nothing but what was to change has changed.

use keepfs_format::PoolId;
use keepfs_format::history::Event;
use keepfs_format::{Kind, PAGE};
use keepfs_media::Class;
use keepfs_media::Device;
use keepfs_media::PageNo;
use keepfs_media::ram::RamDevice;
use keepfs_pool::Pool;
use keepfs_store::Error;
use keepfs_store::mmp::block::Seen;
use keepfs_store::{
    Equations, FormatOptions, Guard, Meaning, Near, Purpose, Ref, Source, Store, StoreOptions, grow, renew_id,
};
use keepfs_testkit::crash::Sweep;
use keepfs_testkit::image::{Image, Page};
use keepfs_testkit::sim::SimDevice;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of the id that stand in every metablock and stay (S-3.2).
const TAG: usize = 4;

fn open(device: Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 2 << 20,
        background: false,
        guard: Guard::Off,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

/// A pool with a node and an event, closed; with or without a block for other machines.
fn closed(device: Arc<dyn Device>, mmp: bool) -> Ref {
    let options = FormatOptions {
        mmp,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &options).expect("format");
    let store = open(device);
    store.history().tell(
        Event {
            text: "noticed".into(),
            ..Event::default()
        },
        None,
    );
    let made = store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(r, 64, b"kept", Meaning::Xattr)?;
        Ok(r)
    });
    store.close().expect("close");
    made.expect("node")
}

/// All of it is there.
fn is_whole(device: Arc<dyn Device>, node: Ref) -> PoolId {
    let store = open(device);
    let mut found = [0; 4];
    store.view().read(node, 64, &mut found).expect("read");
    assert_eq!(&found, b"kept");
    let told = store.history().events(0);
    assert!(told.iter().any(|event| event.text == "noticed"), "{told:?}");
    let id = store.pool().id;
    store.close().expect("close");
    id
}

#[test]
fn a_pool_has_the_one_id_or_the_other_and_its_history_with_both() {
    let device = Arc::new(SimDevice::new(2048));
    // A damaged block is watched for a minute.
    let node = closed(device.clone(), false);
    let before = keepfs_pool::choose(&*device).expect("superblock");
    device.take_log();
    let after = renew_id(device.clone()).expect("renewed");
    assert_eq!(after.0[..TAG], before.pool[..TAG]);
    assert_ne!(after.0, before.pool);
    let mut seen = BTreeSet::new();
    for point in Sweep::new(&device.recording(), 7) {
        for state in point.plan.states() {
            let id = is_whole(Arc::new(SimDevice::over(point.content(&state))), node);
            assert!(id == after || id.0 == before.pool, "{state:?}: {id}");
            seen.insert(id.0);
        }
    }
    assert_eq!(seen.len(), 2);
    assert_eq!(is_whole(device.clone(), node), after);
    let newest = keepfs_pool::choose(&*device).expect("superblock");
    assert_eq!(newest.name_seed, before.name_seed);
    let again = renew_id(device.clone()).expect("renewed");
    assert_ne!(again, after);
    assert_eq!(is_whole(device, node), again);
}

/// What other machines are told of the pool.
fn block(device: &dyn Device) -> Seen {
    let pool = Pool::on(device).expect("pool");
    let mut page = [0; PAGE];
    let at = PageNo(pool.mmp.expect("a block"));
    device.read_shared(at, &mut page).expect("read");
    keepfs_store::mmp::block::read(&page, pool.id)
}

/// S-2.12: the block is one of the pool that has another id, too.
#[test]
fn a_pool_that_several_machines_reach_stays_protected() {
    let device = Arc::new(RamDevice::new(2048));
    let node = closed(device.clone(), true);
    renew_id(device.clone()).expect("renewed");
    assert!(matches!(block(&*device), Seen::Off(_)));
    let store = open(device.clone());
    assert!(store.set_mmp(Some(1)).expect("protected"));
    store.close().expect("close");
    drop(store);
    assert!(matches!(block(&*device), Seen::Free(_)));
    let after = renew_id(device.clone()).expect("renewed");
    assert!(matches!(block(&*device), Seen::Free(_)));
    assert_eq!(is_whole(device, node), after);
}

/// What lies on `device`, at the beginning of one of `pages` pages.
fn on_larger(device: &SimDevice, pages: u64) -> Arc<SimDevice> {
    let mut image = Image::new(pages);
    device.image().for_each(|at, page| image.set(at, page.clone()));
    // What no pool ever had.
    let noise = Page::new(&[0xA5; PAGE]);
    (device.pages()..pages).for_each(|at| image.set(PageNo(at), noise.clone()));
    Arc::new(SimDevice::over(image))
}

/// S-2.15: it has the one size or the other, whenever the power goes, and the slots stay where they are.
#[test]
fn a_pool_that_grows_has_the_one_size_or_the_other() {
    let small = Arc::new(SimDevice::new(2048));
    let node = closed(small.clone(), false);
    let device = on_larger(&small, 40_000);
    let sizes = |device: &dyn Device| Pool::on(device).expect("pool").pages;
    device.take_log();
    assert_eq!(grow(device.clone(), 40_000).expect("grown"), 2048);
    let mut seen = BTreeSet::new();
    for point in Sweep::new(&device.recording(), 7) {
        for state in point.plan.states() {
            let cut = Arc::new(SimDevice::over(point.content(&state)));
            seen.insert(sizes(&*cut));
            is_whole(cut, node);
        }
    }
    assert_eq!(Vec::from_iter(seen), [2048, 40_000]);
    is_whole(device.clone(), node);
    let refused = grow(device.clone(), 40_000).expect_err("no more");
    assert!(refused.to_string().contains("does not shrink"), "{refused}");
    let refused = grow(device.clone(), 40_001).expect_err("too large");
    assert!(refused.to_string().contains("its device has 160000"), "{refused}");
    // Twice, and each page is had.
    let device = on_larger(&device, 70_000);
    assert_eq!(grow(device.clone(), 70_000).expect("grown"), 40_000);
    is_whole(device.clone(), node);
    let store = open(device.clone());
    let mut reserved = Vec::new();
    let free = store.figures().free;
    assert!(free > 68_000, "{free}");
    while let Ok(some) = store.reserve(1000, Purpose::New, Near::Current) {
        reserved.push(some);
    }
    assert!(reserved.len() > 60, "{}", reserved.len());
    drop(reserved);
    store.close().expect("close");
}

/// S-2.16: what a pool that had the whole device left there is not taken for the pool's own, and nothing else behind it is touched.
#[test]
fn what_another_pool_left_behind_is_not_taken_for_the_pools_own() {
    let (whole, small) = (Arc::new(SimDevice::new(40_000)), Arc::new(SimDevice::new(2048)));
    closed(whole.clone(), false);
    let node = closed(small.clone(), false);
    let left = keepfs_pool::whole_superblocks(&*whole);
    assert!(
        left.iter().any(|page| *page < 15_000) && left.iter().any(|page| *page > 15_000),
        "{left:?}"
    );
    let over = |pages: &[u64]| {
        let device = on_larger(&small, 40_000);
        for page in pages.iter().filter(|page| **page >= 2048) {
            let mut bytes = [0; PAGE];
            whole.read(PageNo(*page), &mut bytes).expect("read");
            device.write(PageNo(*page), &bytes, Class::Data).expect("write");
        }
        device
    };
    let id = |device: &dyn Device| Pool::on(device).map(|pool| pool.id).ok();
    let without_first = |device: &SimDevice| {
        device.write(PageNo(0), &[0; PAGE], Class::Data).expect("write");
        id(device)
    };
    assert_eq!(without_first(&over(&left)), id(&*whole), "that is what it is about");
    let device = over(&left);
    assert_eq!(grow(device.clone(), 15_000).expect("grown"), 2048);
    is_whole(device.clone(), node);
    let (now, none_left) = (device.image(), on_larger(&small, 40_000).image());
    for at in 15_000..40_000 {
        let expected = if left.contains(&at) {
            vec![0; PAGE]
        } else {
            none_left.bytes(PageNo(at)).to_vec()
        };
        assert!(now.bytes(PageNo(at))[..] == expected[..], "page {at}");
    }
    assert_eq!(without_first(&device), None);
}

#[test]
fn a_pool_that_was_not_closed_is_refused() {
    let device = Arc::new(RamDevice::new(2048));
    closed(device.clone(), true);
    let store = open(device.clone());
    let refused = renew_id(device.clone()).expect_err("it is open");
    assert!(refused.to_string().contains("it was not closed"), "{refused}");
    store.close().expect("close");
    renew_id(device.clone()).expect("renewed");
}
