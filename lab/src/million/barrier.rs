//! For how long a checkpoint shuts the gate when as much of a large arena is dirty as may be, with the staged table
//! full and the log's redo pending.

use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Store, StoreOptions};
use std::sync::Arc;

/// Changes `rounds` times as many frames as possible and writes a checkpoint; tells the longest barrier in microseconds.
pub fn run(arena_mib: usize, rounds: u32) -> Result<u64, Error> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new((arena_mib as u64) << 14));
    Store::format(device.clone(), &FormatOptions::default())?;
    let options = StoreOptions {
        arena_bytes: arena_mib << 20,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options)?;
    let mut nodes: Vec<Ref> = Vec::new();
    let mut most = 0;
    for round in 0..rounds {
        // Nearly half of the frames: from there on a checkpoint is wanted.
        let before = store.stats().checkpoints;
        for i in 0.. {
            let (frames, dirty, _) = store.arena_figures();
            if dirty * 100 > u64::from(frames) * 48 {
                break;
            }
            let r = nodes.get(i).copied();
            let bytes = [round as u8 + 1; 64];
            let r = store.transact::<_, Error>(|t| {
                let r = match r {
                    Some(r) => r,
                    None => t.new_node(Kind::Xattr, 0, 7)?,
                };
                t.put(r, 64, &bytes, Meaning::Xattr)?;
                Ok(r)
            });
            let r = r.inspect_err(|_| eprintln!("at {i} of round {round}: {:?}", store.figures()))?;
            if i >= nodes.len() {
                nodes.push(r);
            }
        }
        assert_eq!(store.stats().checkpoints, before, "the arena is too full too early");
        let limit = store.staged_soft_limit() as u64;
        for i in 0..limit {
            store.transact::<_, Error>(|t| Ok(t.stage(100, i, round, None, 0, &[round as u8; 100])?))?;
        }
        let (frames, dirty, _) = store.arena_figures();
        let times = store.stats().barrier;
        store.checkpoint()?;
        let now = store.stats().barrier;
        let bucket = (0..now.counts.len()).find(|i| now.counts[*i] != times.counts[*i]);
        println!(
            "barrier, {dirty} of {frames} frames dirty, {limit} staged pages: below {} us",
            bucket.map_or(0, |i| 1u64 << i)
        );
        most = most.max(now.ns_max / 1000);
    }
    store.close()?;
    Ok(most)
}
