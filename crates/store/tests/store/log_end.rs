//! The end of the log goes bad as a whole, with all that was synced last (S-8.15, S-9.27).

use crate::opened::open;
use crate::walked::check;
use keepfs_check::Finding;
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Kind, PAGE};
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{Error, FormatOptions, Meaning, Store};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

fn is_gone(device: &SimDevice) -> bool {
    let found = check(device).findings;
    found.iter().any(|finding| matches!(finding, Finding::LogGone { .. }))
}

/// A server has synced and told it, and power goes. From any page of the log on all of them are bad, up to its end: the pool is
/// refused, by mount and by check; where nothing is bad it is opened.
#[test]
fn answered_syncs_do_not_go_without_a_word() {
    let device = Arc::new(SimDevice::new(2048));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = open(&device, false, false).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let node = node.expect("node");
    for value in 0..5_u64 {
        let change = store.transact::<_, Error>(|t| Ok(t.put(node, 64, &value.to_le_bytes(), Meaning::Xattr)?));
        change.expect("change");
        store.sync().expect("sync");
    }
    store.write_durable().expect("told");
    device.flush().expect("the medium has it");
    store.kill();
    drop(store);
    let image = device.power_cut(0);
    let slots = (0..superblock::SLOTS).map(|slot| superblock::slot_page(slot, image.pages()));
    let read = |page| Superblock::read_from_bytes(&image.bytes(PageNo(page))[..]).ok();
    let sb = slots.filter_map(read).max_by_key(|sb| sb.generation.get());
    let sb = sb.expect("a superblock");
    let (first, round) = (sb.log_seq.get(), sb.log_pages.get());
    let bad = |from: u64, content: u8| {
        let device = SimDevice::over(image.clone());
        for q in from..first + 16 {
            let page = PageNo(sb.log_start.get() + q % round);
            device.write(page, &[content; PAGE], Class::Plog).expect("write");
        }
        Arc::new(device)
    };
    let whole = bad(first + 16, 0);
    assert!(!is_gone(&whole));
    open(&whole, false, false).expect("a sound pool is opened");
    for (from, content) in (first..first + 5).flat_map(|from| [(from, 0), (from, 0xA5)]) {
        let what = format!("from page {} on, {content}", from - first);
        let device = bad(from, content);
        assert!(is_gone(&device), "{what}");
        let Err(error) = open(&device, false, false) else {
            panic!("{what}: opened");
        };
        assert!(
            error.to_string().contains("what was synced behind it is lost"),
            "{what}: {error}"
        );
        open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
        let store = open(&device, false, true).unwrap_or_else(|e| panic!("{what}: {e}"));
        store.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
        store.kill();
        drop(store);
        let device = Arc::new(SimDevice::over(device.power_cut(0)));
        open(&device, false, false).unwrap_or_else(|e| panic!("{what}, opened again: {e}"));
    }
}
