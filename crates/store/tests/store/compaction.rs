//! Groups of the log with compaction and without it (S-8.7; ReconFS section 5.2.3, decision 0421): the same state after a
//! crash, and whole pages only without it.

use keepfs_format::{Kind, PAGE};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{DIRTY_SIZES, Error, FormatOptions, Meaning, Ref, Snapshot, Source, Store, StoreOptions};
use std::sync::Arc;

const NODES: usize = 20;
const ROUNDS: u8 = 5;

fn options() -> StoreOptions {
    StoreOptions {
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    }
}

/// Changes 8 bytes of each node in each round, with a sync a round; then power is cut. What was counted, and the nodes.
fn change(device: &Arc<dyn Device>, options: &StoreOptions) -> Result<(Snapshot, Vec<Ref>), Error> {
    Store::format(device.clone(), &FormatOptions::default())?;
    let store = Store::open(device.clone(), options)?;
    let make = |_| store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 7)?));
    let nodes = (0..NODES).map(make).collect::<Result<Vec<_>, _>>()?;
    store.sync()?;
    for round in 1..=ROUNDS {
        for r in &nodes {
            store.transact::<_, Error>(|t| Ok(t.put(*r, 64, &[round; 8], Meaning::Xattr)?))?;
            store.transact::<_, Error>(|t| Ok(t.put(*r, 64, &[round; 8], Meaning::Xattr)?))?;
        }
        store.sync()?;
    }
    let seen = store.stats();
    store.kill();
    Ok((seen, nodes))
}

fn recovered(device: Arc<dyn Device>, nodes: &[Ref]) -> Result<bool, Error> {
    let store = Store::open(device, &options())?;
    for r in nodes {
        let mut bytes = [0; 8];
        store
            .view()
            .read(*r, 64, &mut bytes)
            .map_err(|stop| Error::Logic(format!("{stop:?}")))?;
        if bytes != [ROUNDS; 8] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// In programs for comparison only.
#[cfg(feature = "comparison")]
#[test]
fn without_compaction_whole_pages_are_logged_and_the_state_is_the_same() {
    let run = |compact| {
        let options = StoreOptions { compact, ..options() };
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(32768));
        let (seen, nodes) = change(&device, &options).expect("changes");
        assert!(recovered(device, &nodes).expect("recovery"));
        seen
    };
    let (compact, whole) = (run(true), run(false));
    assert_eq!(compact.updated_pages, whole.updated_pages);
    assert_eq!(compact.updated_bytes, whole.updated_bytes);
    assert!(compact.updated_pages >= NODES as u64 * u64::from(ROUNDS));
    let saved = whole.bytes_persistence - compact.bytes_persistence;
    let least = compact.updated_pages * PAGE as u64 - compact.updated_bytes;
    assert!(saved + compact.groups * PAGE as u64 >= least, "{saved} of {least}");
    assert!(compact.bytes_persistence < compact.updated_pages * PAGE as u64 / 4);
}

#[test]
fn each_metablock_counts_once_a_group_by_its_changed_bytes() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(32768));
    let (seen, nodes) = change(&device, &options()).expect("changes");
    assert!(recovered(device, &nodes).expect("recovery"));
    assert_eq!(seen.dirty_sizes.iter().sum::<u64>(), seen.updated_pages);
    // Twice changed in a round, and 8 bytes: the first bucket.
    assert!(seen.dirty_sizes[0] >= NODES as u64 * u64::from(ROUNDS));
    assert!(seen.updated_pages < 2 * NODES as u64 * u64::from(ROUNDS));
    assert_eq!(DIRTY_SIZES[DIRTY_SIZES.len() - 1], PAGE);
}
